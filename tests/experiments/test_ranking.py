"""Rankings against all orders that the scores allow, and against SciPy."""

from itertools import pairwise, permutations
from statistics import fmean, median

import numpy as np
import pytest
from scipy.stats import spearmanr

from experiments.ranking import pairwise_accuracy, ranked, together


def all_orders(scores, latency, k):
    """The best latency among the first k, averaged over every order that the scores allow."""
    fair = [
        order
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    return fmean(min(latency[i] for i in order[:k]) for order in fair)


def all_pairs(scores, latency):
    """The share of the pairs that stand in the right order."""
    right = [
        0.5 if scores[i] == scores[j] else float(scores[i] > scores[j])
        for i in range(len(scores))
        for j in range(len(scores))
        if latency[i] < latency[j]
    ]
    return fmean(right) if right else None


@pytest.mark.parametrize("levels", [1, 2, 4, 1000])
@pytest.mark.parametrize("n", [1, 2, 4, 7])
@pytest.mark.parametrize("seed", range(3))
def test_a_task_is_ranked_as_every_order_that_its_scores_allow(levels, n, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(levels, size=n).astype(float)
    latency = rng.integers(1, 5, size=n) * 1e-5  # some equal
    found = ranked(scores, latency)
    assert found.best_s == latency.min()
    assert found.top_s == pytest.approx([all_orders(scores, latency, min(k, n)) for k in (1, 5)])
    assert found.top(5) == pytest.approx(found.best_s / found.top_s[1])
    assert found.pairwise == pytest.approx(all_pairs(scores, latency))
    if found.pairwise is None:
        assert found.rank_correlation is None
    elif len(set(scores)) == 1:
        assert (found.pairwise, found.rank_correlation) == (0.5, 0.0)
    else:
        assert found.rank_correlation == pytest.approx(spearmanr(scores, -latency).statistic)


def test_the_best_and_the_worst_order():
    latency = np.array([3.0, 1.0, 2.0, 8.0, 9.0, 7.0])
    best, worst = ranked(-latency, latency), ranked(latency, latency)
    assert (best.top(1), best.top(5), best.pairwise) == (1.0, 1.0, 1.0)
    assert best.rank_correlation == pytest.approx(1.0)
    assert (worst.top(1), worst.top(5), worst.pairwise) == pytest.approx((1 / 9, 1 / 2, 0.0))
    assert worst.rank_correlation == pytest.approx(-1.0)


def test_infinite_scores_are_ranked():
    latency = np.array([1.0, 2.0, 4.0])
    found = ranked(np.array([np.inf, 0.0, -np.inf]), latency)
    assert (found.top(1), found.pairwise) == (1.0, 1.0)


def test_pairs_of_many_programs_are_all_counted():
    rng = np.random.default_rng(0)
    scores, latency = rng.integers(30, size=300).astype(float), rng.integers(1, 200, size=300) * 1e-6
    assert pairwise_accuracy(scores, latency) == pytest.approx(all_pairs(scores, latency), rel=1e-12)


def test_tasks_are_weighted_by_how_often_they_run():
    first = ranked(np.array([2.0, 1.0]), np.array([2e-4, 1e-4]))  # the slower one first
    second = ranked(np.array([1.0, 2.0, 0.0]), np.array([9e-4, 3e-4, 3e-4]))
    alone = ranked(np.array([5.0]), np.array([7e-4]))
    found = together([first, second, alone], [3.0, 1.0, 2.0])
    best = 3 * 1e-4 + 3e-4 + 2 * 7e-4
    assert found["top1"] == pytest.approx(best / (3 * 2e-4 + 3e-4 + 2 * 7e-4))
    assert found["top5"] == 1.0
    assert found["median1"] == median([0.5, 1.0, 1.0])
    assert found["pairwise"] == fmean([0.0, 0.5])  # of the second one pair is right and one wrong
    assert found["rank_correlation"] == pytest.approx(fmean([-1.0, 0.0]))
    assert together([alone], [1.0])["pairwise"] is None
    assert together([first], [0.0])["top1"] is None
