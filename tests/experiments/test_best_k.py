"""Exact expectations of drafts against all drafts there are, and against scipy."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from experiments.best_k import expected_kth, rank_correlation, size_of
from tests.experiments.brute_force import all_drafts


@pytest.mark.parametrize("levels", [1, 2, 3, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_expectation_is_the_mean_over_all_drafts(levels, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(levels, size=9).astype(float)
    scores[scores == levels - 1] = np.inf if levels > 1 else 0.0
    latency = rng.integers(1, 7, size=9) * 1e-6  # some equal
    for size in range(1, 10):
        found = expected_kth(scores, latency, size, (1, 2, 5, 9))
        for k, value in zip((1, 2, 5, 9), found, strict=True):
            if k > size:
                assert value is None
            else:
                assert value == pytest.approx(all_drafts(scores, latency, size, k), rel=1e-9)


def test_without_ties_it_is_a_look_into_the_draft():
    rng = np.random.default_rng(0)
    scores, latency = rng.permutation(3000).astype(float), rng.random(3000)
    inside = np.sort(latency[np.argsort(scores)[:200]])
    assert expected_kth(scores, latency, 200) == pytest.approx([inside[0], inside[4], inside[19]], rel=1e-12)


def test_random_expectation_of_many_agrees_with_sampling():
    rng = np.random.default_rng(1)
    latency = rng.random(4000)
    drawn = np.sort([latency[rng.permutation(4000)[:63]] for _ in range(4000)], axis=1)
    exact = expected_kth(np.zeros(4000), latency, 63)
    for k, value in zip((1, 5, 20), exact, strict=True):
        column = drawn[:, k - 1]
        assert abs(column.mean() - value) < 5 * column.std() / 4000**0.5


def test_a_draft_larger_than_all_there_is_holds_the_best():
    found = expected_kth(np.array([2.0, 1.0]), np.array([3e-6, 4e-6]), 512)
    assert found == [pytest.approx(3e-6), None, None]


def test_sizes_of_shares():
    assert [size_of(1 / 16, n) for n in (1, 16, 17, 85)] == [1, 1, 2, 6]


def test_rank_correlation_is_spearmans():
    rng = np.random.default_rng(2)
    scores, latency = rng.integers(5, size=50).astype(float), rng.integers(9, size=50).astype(float)
    scores[3] = 99.0
    expected = spearmanr(scores, latency).statistic
    assert rank_correlation(scores, latency) == pytest.approx(expected)
    scores[3] = np.inf  # its rank is what counts
    assert rank_correlation(scores, latency) == pytest.approx(expected)
    assert rank_correlation(np.zeros(50), latency) is None
