from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from tools.gpu_run.summary import Outcome, rank_correlation, table


def test_rank_correlation_is_spearmans() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        first, second = rng.integers(0, 6, (2, 12)).tolist()  # with ties
        assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert rank_correlation([1.0] * 8, list(range(8))) is None
    assert rank_correlation([1.0, 2.0], [1.0, 2.0]) is None


def test_a_line_says_whether_the_draft_beats_chance() -> None:
    outcomes = [Outcome("A", "random", 1e-6 * n, 4e-6 - 1e-7 * n, None) for n in range(5)]
    outcomes += [
        Outcome("A", "draft", 1e-7, 1.8e-6, None),
        Outcome("A", "draft", None, 2e-6, None),  # the draft would not have run it
        Outcome("A", "draft", 1e-7, None, "wrong"),
        Outcome("B", "random", 1e-7, None, "build"),
    ]
    text = table(outcomes)
    first = next(line for line in text.splitlines() if line.startswith("A"))
    assert first.split() == ["A", "7", "1", "1.8", "us", "3.6", "us", "2.00", first.split()[-2], "-1.00"]
    predicted, latency = [0, 1, 2, 3, 4, 0.1], [4, 3.9, 3.8, 3.7, 3.6, 1.8]
    assert first.split()[-2] == f"{spearmanr(predicted, latency).statistic:.2f}"
    assert next(line for line in text.splitlines() if line.startswith("B")).split() == [
        "B",
        "0",
        "1",
        *"-----",
    ]
    assert "failures: 1 build, 1 wrong" in text
