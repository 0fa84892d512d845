"""Random rows of one sketch that meet conditions, where few rows do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pruner.search.nest import Extent
from pruner.search.operators import Operators
from pruner.search.sketch import TileGene
from pruner.search.symbolic.comparison import conjuncts, is_ceiling
from pruner.search.symbolic.tabled import Tabled
from pruner.search.symbolic.verdicts import Condition

Ints = NDArray[np.int64]

# Rows that are drawn in all where they are dropped early, and per wanted row where each is looked at whole.
_STAGED = 2**21
_WHOLE = 16
# Rows drawn at once, and how many more than the share of legal ones so far asks for.
_AT_ONCE = 2**16
_SPARE = 1.1


def gather_rows(attempt: Callable[[int], Ints], n: int, *, staged: bool) -> Ints:
    """Up to n of the rows that `attempt` leaves of those it draws, `m x width`, within reason: fewer where
    next to none is left."""
    found = [attempt(n)]
    tried = n
    while (missing := n - sum(map(len, found))) > 0 and tried < (_STAGED if staged else _WHOLE * n):
        share = max(1, sum(map(len, found))) / tried
        drawn = min(int(_SPARE * missing / share) + 1, _AT_ONCE)
        found.append(attempt(drawn))
        tried += drawn
    return np.concatenate(found)[:n]


class StagedSampler:
    """Draws a gene when a condition first asks for it, and only for rows that may still meet all conditions.
    The rows are distributed as if whole rows were drawn and those that miss a condition thrown away.

    Args:
        operators: of a sketch without compute locations.
        conditions: 0/1 values of its columns, in the order in which they are tried.
    """

    def __init__(self, operators: Operators, conditions: Sequence[Extent]) -> None:
        self._operators = operators
        self._genes = {gene.start: gene for gene in operators.sketch.genes}
        tilings = {g.start: operators.tilings(g) for g in operators.sketch.genes if isinstance(g, TileGene)}
        tabled = Tabled(tilings)
        # What a gene's number is before it is drawn.
        self._undrawn = {start: len(table) for start, table in tilings.items()}
        self._stages: list[tuple[Condition, list[Condition]]] = []
        for condition in map(tabled, conditions):
            ceilings = [Condition(part) for part in conjuncts(condition) if is_ceiling(part)]
            self._stages.append((Condition(condition), ceilings))

    def attempt(self, n: int, rng: np.random.Generator) -> Ints:
        """`m x width`: what is left of n rows."""
        drawn: dict[int, Ints] = {}
        for condition, ceilings in self._stages:
            if condition.always:
                continue
            if any(start in drawn for start in condition.columns):
                for ceiling in ceilings:
                    drawn, n = _keep(drawn, ceiling.holds({**self._undrawn, **drawn}, n))
            for start in condition.columns:
                if start not in drawn:
                    drawn[start] = self._operators.draw(self._genes[start], n, rng)
            drawn, n = _keep(drawn, condition.holds(drawn, n))
        rows = np.empty((n, self._operators.sketch.width), dtype=np.int64)
        for start, gene in self._genes.items():
            numbers = drawn[start] if start in drawn else self._operators.draw(gene, n, rng)
            self._operators.write(gene, numbers, rows)
        return rows


def _keep(drawn: dict[int, Ints], kept: NDArray[np.bool_]) -> tuple[dict[int, Ints], int]:
    """The drawn numbers of some rows, and how many rows that are."""
    rows = np.flatnonzero(kept)
    if len(rows) == len(kept):
        return drawn, len(kept)
    return {start: numbers[rows] for start, numbers in drawn.items()}, len(rows)
