"""Batches of ragged rows: selections, and values that nothing can be learnt from."""

from __future__ import annotations

import numpy as np
import pytest

from pruner.costmodel.verifier import TrainingSet
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch
from pruner.features.symbols import SymbolFeatures


def ragged(counts: list[int], name: str = "mine", width: int = 3) -> FeatureBatch:
    """Rows that say whose they are: candidate, row, column."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    values = (
        100.0 * owner[:, None] + 10.0 * (np.arange(len(owner)) - offsets[owner])[:, None] + np.arange(width)
    )
    return FeatureBatch(values.astype(np.float32), offsets, name, 1)


def test_selections_take_whole_candidates() -> None:
    batch = ragged([2, 0, 3, 1])
    taken = batch.take(np.array([3, 2, 1, 2]))
    assert taken.offsets.tolist() == [0, 1, 4, 4, 7]
    assert taken.values[:, 0].tolist() == [300, 200, 210, 220, 200, 210, 220]
    assert len(batch.take(np.array([], dtype=np.int64))) == 0
    joined = FeatureBatch.concat([batch, ragged([]), taken])
    assert len(joined) == 8
    np.testing.assert_array_equal(joined.take(np.arange(4, 8)).values, taken.values)


def training_set(batch: FeatureBatch) -> TrainingSet:
    n = len(batch)
    return TrainingSet({batch.name: batch}, np.ones(n), np.zeros(n, dtype=np.int64), np.arange(n))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_by_feature_column_and_candidate(value: float) -> None:
    batch = ragged([2, 0, 3, 1])
    training_set(batch)
    batch.values[4, 1] = value  # the last row of the third candidate
    with pytest.raises(ConfigError, match=rf"feature mine is {value} in column 1 of candidate 2; "):
        training_set(batch)
    batch.values[5, 0] = value
    with pytest.raises(ConfigError, match=r"candidate 2 \(and 1 more values\)"):
        batch.check_finite()


def test_columns_of_our_own_are_named() -> None:
    width = len(SymbolFeatures.columns)
    batch = ragged([1, 1], "symbols", width)
    batch.values[1, 1] = np.nan
    with pytest.raises(ConfigError, match=r"symbols is nan in column symbol_seconds \(1\) of candidate 1"):
        training_set(batch)
