"""The latent schedule explorer: genetic search with a formula as fitness (Pruner, algorithm 2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pruner.search.population import Population
from pruner.search.space import Space

# Predicted cost of each row, float64[n]; lower is better, inf = never keep.
Fitness = Callable[[Population], NDArray[np.float64]]

# Four generations of 2,000 make the 8,000 rows a round of the paper's settings.
GENERATIONS = 4
# Children repeat known rows, or are not legal, the more the search closes in: SPARE times as many are bred as
# are wanted, then as many more as the last ones' yield asks for, at most MOST times what is wanted at once.
SPARE = 1.25
MOST = 3.0
BROODS = 3
# Rows that compete to become a parent: the fewer generations, the harder the choice.
CONTEST = 4
# Share of children that also mix the genes of two parents.
CROSSOVER = 0.3
# A generation without a new row means that the reachable space is used up; a few may be bad luck.
BARREN = 3


def explore(
    space: Space,
    fitness: Fitness,
    *,
    explored: int,
    size: int,
    measured: NDArray[np.uint64],
    seeds: Population | None,
    rng: np.random.Generator,
) -> tuple[Population, int]:
    """Scores `explored` distinct legal rows and keeps the `size` best that were never measured, best first.

    The archive is elitist: it holds the best rows of all generations, and parents are drawn from it and
    from the current generation together. A space of at most `explored` rows is enumerated.

    Args:
        measured: hashes of rows that must not be kept; they may still be parents.
        seeds: rows put into the first generation, the best measured ones for instance.

    Returns the archive and the number of distinct rows scored.
    """
    everything = space.enumerate(explored)
    if everything is not None:
        everything = everything[space.legal(everything)]
        best, _ = _best(everything, _score(fitness, everything), size, measured)
        return best, len(everything)

    wanted = max(1, explored // GENERATIONS)
    rows = space.sample_legal(wanted, rng)
    if seeds is not None and len(seeds):
        rows = Population.concat([seeds[space.legal(seeds)], rows])
    seen = np.empty(0, dtype=np.uint64)
    archive, scores = rows[:0], np.empty(0)
    turn = barren = 0
    while True:
        rows = _new(space.unique(rows), seen)[:wanted]
        if len(rows) < wanted:
            # Parents that have few new children left are helped out by strangers.
            strangers = space.sample_legal(wanted - len(rows), rng)
            rows = _new(space.unique(Population.concat([rows, strangers])), seen)
        seen = np.sort(np.concatenate([seen, rows.hashes()]))
        both = Population.concat([archive, rows])
        costs = np.concatenate([scores, _score(fitness, rows)])
        archive, scores = _best(both, costs, size, measured)
        turn += 1
        barren = 0 if len(rows) else barren + 1
        left = explored - len(seen)
        if left <= 0 or barren == BARREN or len(both) == 0:
            return archive, len(seen)
        wanted = -(-left // max(1, GENERATIONS - turn))
        rows = _bred(space, both, costs, wanted, seen, rng)


def _score(fitness: Fitness, rows: Population) -> NDArray[np.float64]:
    return fitness(rows) if len(rows) else np.empty(0)


def _new(rows: Population, seen: NDArray[np.uint64]) -> Population:
    """Those of the rows that are not among `seen`, sorted hashes."""
    if not len(seen):
        return rows
    hashes = rows.hashes()
    at = np.minimum(np.searchsorted(seen, hashes), len(seen) - 1)
    fresh: NDArray[np.bool_] = seen[at] != hashes
    return rows[fresh]


def _bred(
    space: Space,
    rows: Population,
    costs: NDArray[np.float64],
    wanted: int,
    seen: NDArray[np.uint64],
    rng: np.random.Generator,
) -> Population:
    """About `wanted` new legal children, fewer where the parents' surroundings are used up."""
    children = rows[:0]
    drawn = round(SPARE * wanted)
    for _ in range(BROODS):
        brood = _children(space, rows, _tournament(costs, drawn, rng), rng)
        before = len(children)
        children = _new(space.unique(Population.concat([children, brood[space.legal(brood)]])), seen)
        missing, found = wanted - len(children), len(children) - before
        if missing <= 0 or found <= 0:
            break
        drawn = round(min(SPARE * missing * drawn / found, MOST * wanted))
    return children


def _best(
    rows: Population, costs: NDArray[np.float64], size: int, measured: NDArray[np.uint64]
) -> tuple[Population, NDArray[np.float64]]:
    keep = np.flatnonzero(np.isfinite(costs) & ~np.isin(rows.hashes(), measured))
    keep = keep[np.argsort(costs[keep], kind="stable")[:size]]
    return rows[keep], costs[keep]


def _tournament(costs: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """n winners of contests; rows that cannot run (inf) lose against any other."""
    rivals = rng.integers(len(costs), size=(n, CONTEST))
    winners: NDArray[np.int64] = rivals[np.arange(n), np.argmin(costs[rivals], axis=1)]
    return winners


def _children(
    space: Space, rows: Population, parents: NDArray[np.int64], rng: np.random.Generator
) -> Population:
    """Every child is mutated; some are crossed with another winner first."""
    children = rows[parents]
    fathers = rows[rng.permutation(parents)]
    crossed = rng.random(len(parents)) < CROSSOVER
    children.decisions[crossed] = space.crossover(children[crossed], fathers[crossed], rng).decisions
    return space.mutate(children, rng)
