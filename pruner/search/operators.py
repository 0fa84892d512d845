"""Array operations on the rows of one sketch: sampling, mutation and enumeration, all tile products exact."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from pruner.search.sketch import CategoryGene, Gene, LocationGene, Sketch, TileGene

# Compute locations start here: -2 inlines, -1 stays at the root.
FIRST_LOCATION = -2


@lru_cache(maxsize=512)
def prime_powers(extent: int) -> tuple[tuple[int, int], ...]:
    """The prime factors of `extent` and their exponents."""
    found = []
    prime = 2
    while prime * prime <= extent:
        exponent = 0
        while extent % prime == 0:
            extent //= prime
            exponent += 1
        if exponent:
            found.append((prime, exponent))
        prime += 1
    if extent > 1:
        found.append((extent, 1))
    return tuple(found)


@lru_cache(maxsize=512)
def tile_table(extent: int, parts: int, max_innermost: int) -> NDArray[np.int64]:
    """Every ordered factorisation of `extent` into `parts` factors whose last is at most `max_innermost`
    (-1: any): `m x parts` int64, read-only."""
    table = np.ones((1, parts), dtype=np.int64)
    for prime, exponent in prime_powers(extent):
        shares = [s for s in product(range(exponent + 1), repeat=parts - 1) if sum(s) <= exponent]
        powers = np.array([[prime**e for e in (exponent - sum(s), *s)] for s in shares], dtype=np.int64)
        table = (table[:, None, :] * powers[None, :, :]).reshape(-1, parts)
    if max_innermost > 0:
        table = table[table[:, -1] <= max_innermost]
    table.flags.writeable = False
    return table


class Operators:
    """Draws and changes rows of one sketch.

    Args:
        sketch: what the columns mean.
        locations: for each of its location genes, in order, how likely -2, -1, 0, 1, … are drawn: weights
            that need not add up to 1.
    """

    def __init__(self, sketch: Sketch, locations: Sequence[NDArray[np.float64]]) -> None:
        self.sketch = sketch
        weights = iter(locations)
        # Where a column's value is drawn by weights: the upper bounds of the values' shares of [0, 1).
        self._bounds = {
            gene.start: _bounds(gene.probabilities if isinstance(gene, CategoryGene) else next(weights))
            for gene in sketch.genes
            if not isinstance(gene, TileGene)
        }
        self._mutable = [gene for gene in sketch.genes if self._choices(gene) > 1]

    @property
    def size(self) -> float:
        """Rows that can be drawn."""
        return prod(float(self._choices(gene)) for gene in self.sketch.genes)

    def tilings(self, gene: TileGene) -> NDArray[np.int64]:
        """All tilings of a gene, `m x parts`; `draw` gives numbers of them."""
        return tile_table(gene.extent, gene.parts, gene.max_innermost)

    def _choices(self, gene: Gene) -> int:
        if isinstance(gene, TileGene):
            return len(self.tilings(gene))
        return len(self._bounds[gene.start])

    def draw(self, gene: Gene, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """int64[n], numbers that stand for random values of a gene: tiles uniform over all factorisations,
        the others by their weights."""
        if isinstance(gene, TileGene):
            return rng.integers(self._choices(gene), size=n)
        drawn = np.searchsorted(self._bounds[gene.start][:-1], rng.random(n), side="right")
        return drawn.astype(np.int64) + _first(gene)

    def write(self, gene: Gene, numbers: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Puts the decisions that drawn numbers make into the gene's columns of `n x width` rows."""
        if isinstance(gene, TileGene):
            rows[:, gene.start : gene.start + gene.parts] = self.tilings(gene)[numbers]
        else:
            rows[:, gene.start] = numbers

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """`n x width` random rows, drawn gene by gene."""
        rows = np.empty((n, self.sketch.width), dtype=np.int64)
        for gene in self.sketch.genes:
            self.write(gene, self.draw(gene, n, rng), rows)
        return rows

    def mutate(self, parents: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """`n x width` rows that differ from their parents in one decision, where the sketch has a choice."""
        rows = parents.copy()
        if not self._mutable:
            return rows
        chosen = rng.integers(len(self._mutable), size=len(rows))
        for index, gene in enumerate(self._mutable):
            of_gene = np.flatnonzero(chosen == index)
            if len(of_gene) == 0:
                continue
            if isinstance(gene, TileGene):
                columns = slice(gene.start, gene.start + gene.parts)
                rows[of_gene, columns] = _move_factor(gene, rows[of_gene, columns], rng)
            else:
                rows[of_gene, gene.start] = self._redraw(gene, rows[of_gene, gene.start], rng)
        return rows

    def _redraw(
        self, gene: CategoryGene | LocationGene, old: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Values drawn by their weights; where that gives the old one, any other."""
        first, count = _first(gene), self._choices(gene)
        new = self.draw(gene, len(old), rng)
        other = (old - first + rng.integers(1, count, size=len(old))) % count + first
        return np.where(new == old, other, new)

    def enumerate(self) -> NDArray[np.int64]:
        """All rows, `size x width`."""
        rows = np.zeros((1, 0), dtype=np.int64)
        for gene in self.sketch.genes:
            if isinstance(gene, TileGene):
                values = self.tilings(gene)
            else:
                values = np.arange(self._choices(gene), dtype=np.int64)[:, None] + _first(gene)
            rows = np.hstack([np.repeat(rows, len(values), axis=0), np.tile(values, (len(rows), 1))])
        return rows


def _first(gene: CategoryGene | LocationGene) -> int:
    return FIRST_LOCATION if isinstance(gene, LocationGene) else 0


def _bounds(weights: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    ends = np.cumsum(np.asarray(weights, dtype=np.float64))
    return np.asarray(ends / ends[-1])


def _move_factor(gene: TileGene, factors: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Moves a prime power from one level to another, uniformly among the moves that keep the innermost
    factor within its limit; a tile without such a move is drawn anew."""
    n, parts = factors.shape
    powers = np.array(
        [p**e for p, top in prime_powers(gene.extent) for e in range(1, top + 1)], dtype=np.int64
    )
    divides = factors[:, :, None] % powers == 0  # n x level x power
    inner_fits = np.full((n, len(powers)), True)
    if gene.max_innermost > 0:
        inner_fits = factors[:, -1:] * powers <= gene.max_innermost
    # Levels a power may move to: any other, the innermost one only while it stays within its limit.
    targets = (parts - 2 + inner_fits)[:, None, :] * divides
    targets[:, -1, :] = (parts - 1) * divides[:, -1, :]
    # A move is a number below the sum of `targets`: find its (level, power), what is left is the target.
    ends = np.cumsum(targets.reshape(n, -1), axis=1)
    total = ends[:, -1]
    move = (rng.random(n) * total).astype(np.int64)
    cell = np.minimum((ends <= move[:, None]).sum(axis=1), ends.shape[1] - 1)
    source, power = np.divmod(cell, len(powers))
    target = ends[np.arange(n), cell] - 1 - move
    target += target >= source

    moved = factors.copy()
    rows = np.flatnonzero(total > 0)
    moved[rows, source[rows]] //= powers[power[rows]]
    moved[rows, target[rows]] *= powers[power[rows]]
    stuck = np.flatnonzero(total == 0)
    table = tile_table(gene.extent, gene.parts, gene.max_innermost)
    moved[stuck] = table[rng.integers(len(table), size=len(stuck))]
    return moved
