"""What every feature extractor must do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest

from pruner.analyzer.device import Device
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.search.candidate import Candidate
from pruner.search.population import Population
from pruner.testing import tiny
from pruner.testing.suite import Suite, equal_batches, unchanged

Make = Callable[..., FeatureExtractor]
CANDIDATES = 12


def _batch(make: Make, device: Device) -> FeatureBatch:
    return make(device=device).extract(_rows(device))


def _rows(device: Device) -> Population:
    return tiny.programs(tiny.space(device, tiny.UNSEEN), CANDIDATES)


class FeatureSuite(Suite):
    """`make(device=device)` gives a FeatureExtractor."""

    @pytest.fixture
    def extractor(self, make: Make, device: Device) -> FeatureExtractor:
        return make(device=device)

    @pytest.fixture
    def rows(self, device: Device) -> Population:
        return _rows(device)

    def test_describes_itself(self, extractor: FeatureExtractor) -> None:
        assert isinstance(extractor, FeatureExtractor), (
            "an extractor derives from pruner.features.batch.FeatureExtractor"
        )
        assert isinstance(extractor.name, str)
        assert extractor.name
        assert isinstance(extractor.version, int)
        assert all(isinstance(column, str) and column for column in extractor.columns)
        assert len(set(extractor.columns)) == len(extractor.columns), "two columns have the same name"
        assert isinstance(extractor.materialised, bool)
        assert all(isinstance(extractor.explain(column), str) for column in extractor.columns)
        assert extractor.inputs is None or json.dumps(extractor.inputs), "`inputs` are JSON values"

    def test_a_batch_is_what_it_says(self, extractor: FeatureExtractor, rows: Population) -> None:
        batch = extractor.extract(rows)
        assert (batch.name, batch.version) == (extractor.name, extractor.version)
        assert batch.values.dtype == np.float32
        assert batch.values.ndim == 2
        assert batch.values.shape[1] == len(extractor.columns), "one line of `columns` per column"
        assert batch.offsets.dtype == np.int64
        assert batch.offsets.shape == (len(rows) + 1,), "offsets has an entry per candidate and one more"
        assert batch.offsets[0] == 0
        assert batch.offsets[-1] == len(batch.values)
        assert (np.diff(batch.offsets) >= 0).all()
        assert len(batch.values), "no candidate has a single row"
        if extractor.rows is not None:
            assert (np.diff(batch.offsets) == extractor.rows).all(), "every candidate has `rows` rows"

    def test_numbers_are_numbers(self, extractor: FeatureExtractor, rows: Population) -> None:
        wrong = ~np.isfinite(extractor.extract(rows).values)
        named = [column for i, column in enumerate(extractor.columns) if wrong[:, i].any()]
        assert not named, f"NaN or infinity in {', '.join(named)}"

    def test_candidates_differ(self, extractor: FeatureExtractor, rows: Population) -> None:
        batch = extractor.extract(rows)
        parts = {batch.values[a:b].tobytes() for a, b in pairwise(batch.offsets.tolist())}
        assert len(parts) > 1, f"{len(rows)} programs have the same features"

    def test_rows_and_candidates_are_the_same(self, extractor: FeatureExtractor, rows: Population) -> None:
        assert equal_batches(extractor.extract(rows), extractor.extract(list(rows)))

    def test_no_candidate(self, extractor: FeatureExtractor, rows: Population) -> None:
        nothing: list[Population | Sequence[Candidate]] = [rows[:0], []]
        for none in nothing:
            batch = extractor.extract(none)
            assert len(batch) == 0
            assert batch.values.shape == (0, len(extractor.columns))
            assert batch.offsets.tolist() == [0]

    def test_one_candidate_looks_as_in_company(self, extractor: FeatureExtractor, rows: Population) -> None:
        alone = extractor.extract(rows[3:4])
        assert equal_batches(alone, extractor.extract(rows).take(np.array([3])))

    def test_batches_keep_the_order(self, extractor: FeatureExtractor, rows: Population) -> None:
        backwards = np.arange(len(rows))[::-1].copy()
        reverse = extractor.extract(rows[backwards])
        assert equal_batches(reverse, extractor.extract(rows).take(backwards))

    def test_equal_candidates_look_the_same(self, extractor: FeatureExtractor, rows: Population) -> None:
        one = np.zeros(5, dtype=np.int64)
        assert equal_batches(extractor.extract(rows[one]), extractor.extract(rows).take(one))

    def test_rows_are_left_as_they_are(self, extractor: FeatureExtractor, rows: Population) -> None:
        same = unchanged(rows)
        extractor.extract(rows)
        assert same(), "extract changes the population it is given"

    def test_another_process_sees_the_same(self, make: Make, device: Device) -> None:
        there = self.elsewhere(_batch, make, device)
        assert equal_batches(there, _batch(make, device))
