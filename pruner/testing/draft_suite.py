"""What every draft model must do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel, draft_scores
from pruner.search.population import Population
from pruner.testing import tiny
from pruner.testing.suite import Suite, unchanged

Make = Callable[..., DraftModel]
# Rows that are scored.
ROWS = 200


def _scores(make: Make, device: Device) -> NDArray[np.float64]:
    return draft_scores(make(device=device), _rows(device))


def _rows(device: Device) -> Population:
    return tiny.space(device, tiny.UNSEEN).sample_legal(ROWS, np.random.default_rng(0))


class DraftSuite(Suite):
    """`make(device=device)` gives a DraftModel."""

    @pytest.fixture
    def draft(self, make: Make, device: Device) -> DraftModel:
        return make(device=device)

    @pytest.fixture
    def rows(self, device: Device) -> Population:
        return _rows(device)

    def test_keeps_its_settings(self, draft: DraftModel, device: Device) -> None:
        assert isinstance(draft, DraftModel), "a draft model derives from pruner.analyzer.draft.DraftModel"
        for name in ("explored", "size", "random"):
            assert isinstance(getattr(draft, name, None), int), f"call super().__init__: it sets {name}"
        assert draft.device is device, "call super().__init__(device=device, ...)"

    def test_one_number_per_row(self, draft: DraftModel, rows: Population) -> None:
        scores = draft_scores(draft, rows)
        assert scores.shape == (len(rows),)
        assert not np.isneginf(scores).any(), "predicted seconds; only +inf, does not fit, is special"

    def test_some_row_fits_the_device(self, draft: DraftModel, rows: Population) -> None:
        assert np.isfinite(draft_scores(draft, rows)).any(), (
            "every row scores inf, does not fit: nothing would ever be proposed"
        )

    def test_no_row(self, draft: DraftModel, rows: Population) -> None:
        assert draft_scores(draft, rows[:0]).shape == (0,)

    def test_a_score_does_not_depend_on_the_company(self, draft: DraftModel, rows: Population) -> None:
        scores = draft_scores(draft, rows)
        backwards = np.arange(len(rows))[::-1]
        np.testing.assert_array_equal(draft_scores(draft, rows[backwards]), scores[backwards])
        np.testing.assert_array_equal(draft_scores(draft, rows[:1]), scores[:1])

    def test_equal_rows_score_the_same(self, draft: DraftModel, rows: Population) -> None:
        scores = draft_scores(draft, rows[np.zeros(7, dtype=np.int64)])
        np.testing.assert_array_equal(scores, scores[:1].repeat(7))

    def test_rows_are_left_as_they_are(self, draft: DraftModel, rows: Population) -> None:
        same = unchanged(rows)
        draft_scores(draft, rows)
        assert same(), "score changes the population it is given"

    def test_another_process_scores_the_same(self, make: Make, device: Device) -> None:
        there = self.elsewhere(_scores, make, device)
        np.testing.assert_array_equal(there, _scores(make, device))
