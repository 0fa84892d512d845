"""Figures of draws against `together` on the tasks and seeds that were drawn."""

import numpy as np
import pytest

from experiments.ranking import FIGURES, ranked, together
from experiments.task_intervals import Draws, interval_of, intervals

TASKS, SEEDS = 5, 3
WEIGHTS = [1.0, 3.0, 0.5, 2.0, 1.0]


def made_up(rng, good):
    """By seed, each task's programs in an order that is right with this much weight."""
    found = []
    for _ in range(SEEDS):
        latency = [rng.uniform(1.0, 9.0, 8) for _ in range(TASKS)]
        found.append([ranked(-good * one + rng.normal(size=8), one) for one in latency])
    return found


def test_the_figures_of_a_draw_are_those_of_its_tasks_meaned_over_its_seeds():
    seeds = made_up(np.random.default_rng(0), 0.3)
    draws = Draws.of(TASKS, SEEDS)
    figures = draws.figures(seeds, WEIGHTS)
    assert draws.tasks[0].tolist() == list(range(TASKS))
    assert draws.seeds[0] == pytest.approx([1 / 3] * 3)
    assert draws.seeds.sum(axis=1) == pytest.approx(1.0)
    for number in (0, 1, 7, 1234):
        tasks = draws.tasks[number]
        of = [together([seed[i] for i in tasks], [WEIGHTS[i] for i in tasks]) for seed in seeds]
        for name in FIGURES:
            expected = np.dot(draws.seeds[number], [one[name] for one in of])
            assert figures[name][number] == pytest.approx(expected)


def test_what_is_better_on_every_task_is_better_on_every_draw():
    rng = np.random.default_rng(1)
    draws = Draws.of(TASKS, SEEDS)
    good, bad = (draws.figures(made_up(rng, weight), WEIGHTS) for weight in (50.0, -50.0))
    for name, found in intervals(good, bad).items():
        assert found["mean"] == pytest.approx(good[name][0] - bad[name][0])
        assert 0 < found["low"] <= found["mean"] <= found["high"]


def test_the_interval_of_a_mean_over_many_tasks_is_that_of_its_standard_error():
    rng = np.random.default_rng(2)
    latency = [rng.uniform(1.0, 9.0, 8) for _ in range(200)]
    one_seed = [[ranked(-0.3 * one + rng.normal(size=8), one) for one in latency]]
    found = intervals(Draws.of(200, 1).figures(one_seed, [1.0] * 200))["rank_correlation"]
    values = np.array([task.rank_correlation for task in one_seed[0]])
    half = 1.96 * values.std() / np.sqrt(200)
    assert found["high"] - found["low"] == pytest.approx(2 * half, rel=0.15)


def test_one_task_and_one_seed_have_no_interval_and_a_missing_figure_is_none():
    one = [[ranked(np.array([2.0, 1.0]), np.array([1.0, 1.0]))]]
    figures = Draws.of(1, 1).figures(one, [1.0])
    assert intervals(figures)["top1"] == {"mean": 1.0, "low": None, "high": None}
    # Programs that are equally fast have no order.
    assert intervals(figures)["pairwise"] == {"mean": None, "low": None, "high": None}
    assert interval_of(np.full(9, np.nan))["mean"] is None
