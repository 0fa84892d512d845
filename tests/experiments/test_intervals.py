"""Intervals against all the ways there are to draw the blocks."""

import itertools

import numpy as np
import pytest

from experiments.intervals import interval, plain_interval, shown, verdict


@pytest.mark.parametrize("ratios", [(1.5, 4.0), (0.8, 1.1, 3.0, 1.4), (2.0, 2.5, 1.25, 0.5, 8.0)])
def test_an_interval_is_that_of_every_possible_draw(ratios):
    found = interval(ratios)
    assert found["mean"] == pytest.approx(np.prod(ratios) ** (1 / len(ratios)))
    means = sorted(
        np.prod(drawn) ** (1 / len(ratios)) for drawn in itertools.product(ratios, repeat=len(ratios))
    )
    # The values that leave 2.5 % of the draws outside, give or take what 20,000 random draws may miss it by.
    for end, share in (("low", 0.025), ("high", 0.975)):
        lowest, highest = (
            means[int(np.clip((share + d) * len(means), 0, len(means) - 1))] for d in (-4e-3, 4e-3)
        )
        assert lowest * (1 - 1e-9) <= found[end] <= highest * (1 + 1e-9)
    assert interval(ratios) == found


def test_two_blocks_span_their_ratios():
    assert interval([2.0, 8.0]) == pytest.approx({"mean": 4.0, "low": 2.0, "high": 8.0})


def test_one_block_has_no_interval_and_none_has_no_mean():
    assert interval([3.0]) == {"mean": pytest.approx(3.0), "low": None, "high": None}
    assert interval([]) == {"mean": None, "low": None, "high": None}


def test_a_plain_interval_is_of_arithmetic_means():
    """Of two values a quarter of the draws is each of them twice, so that they are the ends."""
    assert plain_interval([-0.5, 1.5]) == pytest.approx({"mean": 0.5, "low": -0.5, "high": 1.5})
    # Of a hundred values the bootstrap's spread is that of the mean: 1.96 deviations / sqrt(100).
    values = np.random.default_rng(0).normal(3.0, 2.0, 100)
    found = plain_interval(values.tolist())
    assert found["mean"] == pytest.approx(values.mean())
    half = 1.96 * values.std() / 10
    assert found["low"] == pytest.approx(values.mean() - half, abs=0.05 * half)
    assert found["high"] == pytest.approx(values.mean() + half, abs=0.05 * half)


def test_one_value_has_no_interval_and_none_has_no_mean():
    assert plain_interval([-3.0]) == {"mean": -3.0, "low": None, "high": None}
    assert plain_interval([])["mean"] is None


def test_no_difference_is_0_of_differences():
    assert verdict(plain_interval([0.1, 0.3]), 0.0) == "better"
    assert verdict(plain_interval([-0.1, -0.3]), 0.0) == "worse"
    assert verdict(plain_interval([-0.1, 0.3]), 0.0) == "undecided"


def test_better_means_that_the_interval_excludes_no_difference():
    assert verdict(interval([1.1, 3.0])) == "better"
    assert verdict(interval([0.5, 0.9])) == "worse"
    assert verdict(interval([0.9, 30.0])) == "undecided"
    assert verdict(interval([30.0])) == "undecided"
    assert verdict(interval([])) == "undecided"


def test_an_interval_is_shown_as_far_as_there_is_one():
    assert shown(interval([2.0, 8.0])) == "4.00 [2.00, 8.00]"
    assert shown(interval([3.0])) == "3.00"
    assert shown(interval([])) == "-"
