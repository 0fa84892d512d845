"""Footprints: what a statement touches while its inner loops run, and what that costs a cache in traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.statements import StatementBatch
from pruner.search.nest import Access, Loop, Statement

Floats = NDArray[np.float64]


def widths_by_depth(access: Access, loops: tuple[Loop, ...], m: int) -> list[list[Floats | float]]:
    """`[depth][dimension]`: `Access.widths` while the loops from `depth` inwards run, for depth 0 … len(loops)
    (nothing runs at the last). One pass from the inside out instead of one per depth."""
    depth = len(loops)
    table: list[list[Floats | float]] = [[] for _ in range(depth + 1)]
    for index, dim in zip(access.index, access.buffer.shape, strict=True):
        affine = all(isinstance(term, Loop) for term in index.terms)
        moving = index.loops()
        width: Floats | float = 1.0
        table[depth].append(width)
        for level in reversed(range(depth)):
            loop = loops[level]
            if loop in moving:
                if affine:
                    width = width + np.abs(index.terms[loop]) * np.subtract(loop.extent, 1.0)
                else:
                    low, high = index.range(loops[level:])
                    width = np.subtract(high, low) + 1.0
            table[level].append(np.minimum(width, dim) if loop in moving else table[level + 1][-1])
    return table


@dataclass(frozen=True, eq=False)
class Reach:
    """What each access of a statement touches, by depth.

    elements, lines: per access (reads first, then writes), `(depth + 1) x m`: elements and bytes of whole
        cache lines touched while the loops from that depth inwards run once.
    moves: per access, `depth` bools: whether the loop moves the accessed element.
    visits: per access, `(depth + 1) x m`: how often that footprint is fetched, when what is touched stays
        as long as the loops just outside do not move it.
    A buffer that lives inside outer loops is the same memory at each of their iterations.
    """

    accesses: tuple[Access, ...]
    elements: list[Floats]
    lines: list[Floats]
    moves: list[tuple[bool, ...]]
    visits: list[Floats]

    def total_lines(self) -> Floats:
        """`(depth + 1) x m` bytes of cache lines that all accesses touch together."""
        return np.sum(self.lines, axis=0, dtype=np.float64)

    def traffic(self, capacity: float, weights: tuple[float, ...] | None = None) -> Floats:
        """float64[m] bytes fetched into a memory of `capacity` bytes over the whole run of the statement:
        the largest sub-nest whose lines fit is loaded once per visit."""
        fits = self.total_lines() <= capacity
        fits[-1] = True
        # Outermost depth that fits; deeper sub-nests touch less.
        chosen = np.argmax(fits, axis=0)
        columns = np.arange(fits.shape[1])
        total = np.zeros(fits.shape[1])
        for i, (lines, visits) in enumerate(zip(self.lines, self.visits, strict=True)):
            weight = 1.0 if weights is None else weights[i]
            total += weight * lines[chosen, columns] * visits[chosen, columns]
        return total


def inputs(statement: Statement) -> list[int]:
    """Positions of the reads without the accumulator that a reduction updates."""
    written = {id(access.buffer) for access in statement.writes}
    return [i for i, read in enumerate(statement.reads) if id(read.buffer) not in written]


def reach(batch: StatementBatch, extents: Floats, transaction: int) -> Reach:
    """The reach of a batch's statement; `extents` is `depth x m`, `transaction` the bytes of a line."""
    statement, m = batch.statement, len(batch)
    loops, depth = statement.loops, len(statement.loops)
    operands = inputs(statement)
    accesses = (*(statement.reads[i] for i in operands), *statement.writes)
    homes = [batch.homes[i] for i in operands] + list(batch.homes[len(statement.reads) :])
    outer = np.ones((depth + 1, m))
    np.cumprod(extents, axis=0, out=outer[1:])
    result = Reach(accesses, [], [], [], [])
    for access, home in zip(accesses, homes, strict=True):
        table = widths_by_depth(access, loops, m)
        elements, lines = np.ones((depth + 1, m)), np.ones((depth + 1, m))
        moves = tuple(access.indexed_by(loop) for loop in loops)
        for level in range(depth, -1, -1):
            if level < depth and not moves[level]:
                elements[level], lines[level] = elements[level + 1], lines[level + 1]
                continue
            here = _elements_and_lines(access, table[level], transaction)
            for column, value in zip((elements, lines), here, strict=True):
                if level < depth:
                    value = np.where(level < home, column[level + 1], value)
                column[level] = value
        visits = np.ones((depth + 1, m))
        for level in range(1, depth + 1):
            moved = moves[level - 1] & (extents[level - 1] > 1) & (level > home)
            visits[level] = np.where(moved, outer[level], visits[level - 1])
        for column, value in zip(
            (result.elements, result.lines, result.visits), (elements, lines, visits), strict=True
        ):
            column.append(value)
        result.moves.append(moves)
    return result


def _elements_and_lines(
    access: Access, widths: list[Floats | float], transaction: int
) -> tuple[Floats | float, Floats | float]:
    """Elements, and bytes of the cache lines they lie in: whole rows run on into the next dimension."""
    size = float(access.buffer.itemsize)
    elements: Floats | float = 1.0
    run: Floats | float = size  # bytes that lie next to each other
    whole: NDArray[np.bool_] | bool = True
    for width, dim in zip(reversed(widths), reversed(access.buffer.shape), strict=True):
        elements = elements * width
        run = np.where(whole, run * width, run)
        whole = whole & np.equal(width, dim)
    runs = elements * size / run
    return elements, runs * np.ceil(run / transaction) * transaction
