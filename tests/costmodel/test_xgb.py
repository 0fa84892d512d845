"""XGBVerifier: ranks like the truth it was trained on, and refuses what it was not trained on."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from pruner.costmodel.verifier import TrainingSet
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch
from pruner.features.symbols import SymbolFeatures


def flat(values: NDArray[Any], name: str = "symbols", version: int = 1) -> FeatureBatch:
    """One row per candidate."""
    return FeatureBatch(values.astype(np.float32), np.arange(len(values) + 1), name, version)


def training_set(
    batch: FeatureBatch, labels: NDArray[np.float64], group: NDArray[np.int64] | None = None
) -> TrainingSet:
    if group is None:
        group = np.zeros(len(labels), dtype=np.int64)
    return TrainingSet({batch.name: batch}, labels, group, np.arange(len(labels)))


def task(n: int, seed: int) -> tuple[FeatureBatch, NDArray[np.float64]]:
    """n candidates of 20 columns; the label depends on three of them and a product."""
    values = np.random.default_rng(seed).normal(size=(n, 20))
    seconds = np.exp(values[:, 0] - values[:, 1] + 0.5 * values[:, 2] * values[:, 3])
    return flat(values), seconds.min() / seconds


def rank_correlation(verifier: XGBVerifier, batch: FeatureBatch, truth: NDArray[np.float64]) -> float:
    return float(spearmanr(verifier.predict({batch.name: batch}), truth).statistic)


@pytest.mark.parametrize(("records", "least"), [(10, 0.15), (30, 0.45), (200, 0.75)])
def test_ranks_unseen_candidates_better_with_more_records(records: int, least: float) -> None:
    correlations = []
    for seed in range(5):
        verifier = XGBVerifier(prior=0)
        verifier.fit(training_set(*task(records, seed)))
        correlations.append(rank_correlation(verifier, *task(300, 100 + seed)))
    assert np.mean(correlations) > least


def test_the_drafts_seconds_are_where_it_starts_from() -> None:
    # The draft's column knows half of the truth; ten records alone say less.
    draft = SymbolFeatures.columns.index("seconds")
    learned, drafted, alone = [], [], []
    for seed in range(8):
        batches = []
        for records, shift in ((10, 0), (300, 100)):
            batch, labels = task(records, seed + shift)
            wide = np.zeros((records, draft + 21), dtype=np.float32)
            wide[:, draft + 1 :] = batch.values
            wide[:, draft] = 10 + (batch.values[:, 0] - batch.values[:, 1]) / np.log(2)
            batches.append((flat(wide), labels))
        (known, labels), (unseen, truth) = batches
        for verifier, found in ((XGBVerifier(), learned), (XGBVerifier(prior=0), alone)):
            verifier.fit(training_set(known, labels))
            found.append(rank_correlation(verifier, unseen, truth))
        drafted.append(spearmanr(-unseen.values[:, draft], truth).statistic)
    assert np.mean(learned) > np.mean(drafted) - 0.02
    assert np.mean(learned) > np.mean(alone) + 0.1


def test_a_number_that_is_not_finite_is_named() -> None:
    batch, labels = task(40, 0)
    verifier = XGBVerifier()
    verifier.fit(training_set(batch, labels))
    draft = SymbolFeatures.columns.index("seconds")
    unseen, _ = task(50, 1)
    unseen.values[7, draft] = np.inf
    with pytest.raises(ConfigError, match=r"symbols is inf in column seconds .* of candidate 7"):
        verifier.predict({"symbols": unseen})


def test_failures_rank_below_what_ran() -> None:
    batch, labels = task(60, 0)
    fails = batch.values[:, 5] > 0.3
    labels[fails] = 0
    verifier = XGBVerifier(prior=0)
    verifier.fit(training_set(batch, labels))
    unseen, _ = task(300, 1)
    scores = verifier.predict({"symbols": unseen})
    would_fail = unseen.values[:, 5] > 0.3
    assert np.mean(scores[would_fail][:, None] < scores[~would_fail]) > 0.9


def test_compares_within_a_task_only() -> None:
    # Over both tasks the label falls with x, within each it rises.
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0, 1, 40), rng.uniform(1, 2, 40)])
    group = np.repeat([7, 3], 40)
    labels = np.where(group == 7, 0.5 + x / 2, (x - 1) / 4)
    verifier = XGBVerifier(prior=0)
    verifier.fit(training_set(flat(x[:, None]), labels, group))
    for low, high in ((0.05, 0.95), (1.05, 1.95)):
        grid = np.linspace(low, high, 50)
        assert rank_correlation(verifier, flat(grid[:, None]), grid) > 0.8


@pytest.mark.parametrize("labels", [[0.0] * 10, [1.0], [0.5] * 4, []])
def test_without_anything_to_compare_it_stays_unfitted(labels: list[float]) -> None:
    batch = flat(np.random.default_rng(0).normal(size=(len(labels), 20)))
    verifier = XGBVerifier(prior=0)
    verifier.fit(training_set(*task(20, 0)))
    verifier.fit(training_set(batch, np.array(labels)))
    assert not verifier.fitted
    assert (verifier.predict({"symbols": task(5, 1)[0]}) == 0).all()


def test_columns_that_never_differ_leave_it_unfitted() -> None:
    verifier = XGBVerifier(prior=0)
    verifier.fit(training_set(flat(np.ones((6, 3))), np.linspace(0.1, 1, 6)))
    assert not verifier.fitted


def test_the_same_seed_gives_the_same_scores() -> None:
    unseen, _ = task(200, 1)
    scores = []
    for _ in range(2):
        verifier = XGBVerifier(prior=0, seed=4)
        verifier.fit(training_set(*task(50, 0)))
        scores.append(verifier.predict({"symbols": unseen}))
    np.testing.assert_array_equal(*scores)


def ragged(n: int, seed: int) -> tuple[FeatureBatch, NDArray[np.float64]]:
    """0 to 3 rows a candidate, fast by the first column of its heaviest row and all of the second column."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, n))])
    values = rng.uniform(size=(offsets[-1], 6)).astype(np.float32)
    rows = [values[a:b] for a, b in pairwise(offsets)]
    truth = [row[row.sum(axis=1).argmax(), 0] + 0.5 * row[:, 1].sum() if len(row) else 0.0 for row in rows]
    return FeatureBatch(values, offsets, "statement", 1), np.array(truth)


def test_several_rows_a_candidate_count_by_sum_and_heaviest() -> None:
    batch, truth = ragged(150, 0)
    verifier = XGBVerifier(features="statement", prior=0)
    verifier.fit(training_set(batch, truth / truth.max()))
    unseen, truth = ragged(300, 1)
    assert rank_correlation(verifier, unseen, truth) > 0.85
    # A candidate's score does not depend on who is asked about beside it.
    together = verifier.predict({"statement": unseen})
    start, end = unseen.offsets[10], unseen.offsets[11]
    alone = FeatureBatch(unseen.values[start:end], np.array([0, end - start]), "statement", 1)
    assert verifier.predict({"statement": alone})[0] == together[10]


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """What an archive of JSON and arrays, without pickles, gives back."""
    arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    buffer.seek(0)
    plain = json.loads(json.dumps({key: value for key, value in state.items() if key not in arrays}))
    with np.load(buffer, allow_pickle=False) as archive:
        return {**plain, **archive}


def test_a_saved_verifier_scores_as_before() -> None:
    verifier = XGBVerifier(prior=0)
    verifier.fit(training_set(*task(50, 0)))
    unseen, _ = task(100, 1)
    loaded = XGBVerifier(prior=0)
    loaded.load_state_dict(through_a_file(verifier.state_dict()))
    assert loaded.fitted
    np.testing.assert_array_equal(loaded.predict({"symbols": unseen}), verifier.predict({"symbols": unseen}))


def test_an_unfitted_verifier_can_be_saved() -> None:
    loaded = XGBVerifier(prior=0)
    loaded.fit(training_set(*task(50, 0)))
    loaded.load_state_dict(through_a_file(XGBVerifier(prior=0).state_dict()))
    assert not loaded.fitted


def test_refuses_what_it_was_not_trained_on() -> None:
    verifier = XGBVerifier(prior=0)
    verifier.fit(training_set(*task(50, 0)))
    state = verifier.state_dict()
    with pytest.raises(ConfigError, match=r"symbols.*statement"):
        XGBVerifier(features="statement", prior=0).load_state_dict(state)
    with pytest.raises(ConfigError, match=r"verifier.prior=0"):
        XGBVerifier().load_state_dict(state)
    with pytest.raises(ConfigError, match=r"pacm.*xgb"):
        verifier.load_state_dict({**state, "model": "pacm"})
    with pytest.raises(ConfigError, match=r"version 1 .*version 2"):
        verifier.predict({"symbols": flat(np.zeros((3, 20)), version=2)})
    with pytest.raises(ConfigError, match=r"20 columns.*21 columns"):
        verifier.predict({"symbols": flat(np.zeros((3, 21)))})


@pytest.mark.parametrize(
    "setting", [{"trees": 0}, {"depth": -1}, {"learning_rate": 0}, {"prior": -1.0}, {"prior": float("nan")}]
)
def test_settings_that_cannot_work_are_refused(setting):
    (name,) = setting
    with pytest.raises(ConfigError, match=name):
        XGBVerifier(**setting)
