"""The explorer against what it was shown: a recording fitness tells every row and score."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tvm.target import Target

from pruner.search.explorer import GENERATIONS, explore
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import load_task

LLVM = Target({"kind": "llvm", "num-cores": 2})
CUDA = Target("nvidia/nvidia-a100")


@cache
def space(name: str, target: Target = LLVM) -> Space:
    return Space.of(load_task(name, target))


class Recorder:
    """A weighted sum of a row's decisions; some rows cannot run."""

    def __init__(self) -> None:
        self.scored: list[Population] = []

    def __call__(self, rows: Population) -> np.ndarray:
        self.scored.append(rows)
        return self.cost(rows)

    def cost(self, rows: Population) -> np.ndarray:
        weights = np.random.default_rng(1).normal(size=rows.space.width)
        costs = np.log2(np.maximum(rows.decisions, 1)) @ weights
        return np.where(rows.hashes() % 7 == 0, np.inf, costs)


@pytest.mark.parametrize("name", ["GMM/0", "SFM/0"])
def test_the_best_never_measured_rows_of_all_that_were_scored_are_kept(name: str) -> None:
    fitness, rng = Recorder(), np.random.default_rng(4)
    seeds = space(name).sample(20, rng)
    measured = seeds.hashes()[:10]
    kept, explored = explore(
        space(name), fitness, explored=2000, size=100, measured=measured, seeds=seeds, rng=rng
    )
    scored = Population.concat(fitness.scored)
    hashes = scored.hashes()
    assert explored == len(scored) == len(np.unique(hashes)) == 2000
    assert np.isin(seeds.hashes(), hashes).all()
    costs = fitness.cost(scored)
    costs[np.isin(hashes, measured)] = np.inf
    expected = np.sort(costs)[:100]
    assert np.isfinite(expected).all()
    assert np.array_equal(fitness.cost(kept), expected)
    assert not np.isin(kept.hashes(), measured).any()


@pytest.mark.parametrize("name", ["GMM/0", "SFM/0"])
def test_later_generations_are_as_large_as_wanted_and_better(name: str) -> None:
    fitness = Recorder()
    empty = np.empty(0, dtype=np.uint64)
    rng = np.random.default_rng(5)
    explore(space(name), fitness, explored=4000, size=256, measured=empty, seeds=None, rng=rng)
    assert sum(map(len, fitness.scored)) == 4000
    assert len(fitness.scored) <= GENERATIONS + 2
    costs = [fitness.cost(rows) for rows in fitness.scored]
    medians = [np.median(cost[np.isfinite(cost)]) for cost in costs]
    assert medians == sorted(medians, reverse=True)
    random = space(name).sample(4000, np.random.default_rng(6))
    found = np.sort(np.concatenate(costs))[:256].mean()
    assert found < np.sort(fitness.cost(random))[:256].mean()


@pytest.mark.parametrize("name", ["C2D/0", "C3D/0"])
def test_where_few_rows_are_legal_only_those_are_scored_and_they_get_better(name: str) -> None:
    fitness, rng = Recorder(), np.random.default_rng(7)
    seeds = space(name, CUDA).sample(60, rng)
    empty = np.empty(0, dtype=np.uint64)
    kept, explored = explore(
        space(name, CUDA), fitness, explored=4000, size=256, measured=empty, seeds=seeds, rng=rng
    )
    scored = Population.concat(fitness.scored)
    assert explored == len(scored) == len(space(name, CUDA).unique(scored)) == 4000
    assert space(name, CUDA).legal(scored).all()
    assert not space(name, CUDA).legal(seeds).all()
    assert len(kept) == 256
    assert len(np.unique(kept.sketch_ids)) > 1
    random = space(name, CUDA).sample_legal(4000, np.random.default_rng(8))
    best = np.sort(fitness.cost(random))[:256]
    assert np.isfinite(best).all()
    assert fitness.cost(kept).mean() < best.mean()


def test_a_space_that_is_used_up_ends_the_search() -> None:
    """More rows are asked for than can be reached, and all of them were measured."""
    small = space("NRM/0")
    everything = small.enumerate(10**6)
    assert everything is not None
    limit = int(small.size) - 1
    assert len(everything) <= limit
    for measured, left in ((everything.hashes(), 0), (everything.hashes()[5:], 5)):
        kept, explored = explore(
            small,
            lambda rows: np.zeros(len(rows)),
            explored=limit,
            size=10**6,
            measured=measured,
            seeds=None,
            rng=np.random.default_rng(0),
        )
        assert explored <= len(everything)
        assert len(kept) <= left
