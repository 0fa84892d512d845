"""Footprints: what a statement touches while its inner loops run, and what that costs a cache in traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.statements import StatementBatch
from pruner.search.nest import Access, Loop, Statement

Floats = NDArray[np.float64]


def widths_by_depth(access: Access, loops: tuple[Loop, ...]) -> list[list[Floats | float]]:
    """`[depth][dimension]`: `Access.widths` while the loops from `depth` inwards run, for depths from 0 to
    len(loops), where nothing runs. One pass from the inside out instead of one per depth."""
    depth = len(loops)
    table: list[list[Floats | float]] = [[] for _ in range(depth + 1)]
    for index, dim in zip(access.index, access.buffer.shape, strict=True):
        affine = all(isinstance(term, Loop) for term in index.terms)
        moving = index.loops()
        width: Floats | float = 1.0
        clipped: Floats | float = np.minimum(1.0, dim)
        table[depth].append(clipped)
        for level in reversed(range(depth)):
            loop = loops[level]
            if loop in moving:
                if affine:
                    width = width + np.abs(index.terms[loop]) * np.subtract(loop.extent, 1.0)
                else:
                    low, high = index.range(loops[level:])
                    width = np.subtract(high, low) + 1.0
                clipped = np.minimum(width, dim)
            table[level].append(clipped)
    return table


@dataclass(frozen=True, eq=False)
class Reach:
    """What a statement's accesses touch, by depth; `depth` is the number of its loops.

    accesses: the reads without the accumulator of a reduction, then the writes. operands: how many reads.
    elements: per access, `(depth + 1) x m`: elements touched while the loops from that depth inwards run
        once. A buffer that lives inside outer loops is the same memory at each of their iterations.
    moves: per access, `depth` bools: whether the loop moves the accessed element.
    lines: `(depth + 1) x m`, bytes of the whole cache lines that all accesses touch together.
    fetched: `(depth + 1) x m`, bytes moved into a memory that holds just `lines` of that depth, over the
        whole run of the statement. What is touched stays as long as the loops just outside do not move it;
        an output counts twice when it is read too.
    """

    accesses: tuple[Access, ...]
    operands: int
    elements: list[Floats]
    moves: list[tuple[bool, ...]]
    lines: Floats
    fetched: Floats

    def traffic(self, capacity: float) -> Floats:
        """float64[m] bytes fetched into a memory of `capacity` bytes: the largest sub-nest whose lines fit
        is loaded once per visit."""
        fits = self.lines <= capacity
        fits[-1] = True
        # Outermost depth that fits; deeper sub-nests touch less.
        return np.asarray(self.fetched[np.argmax(fits, axis=0), np.arange(fits.shape[1])])


def inputs(statement: Statement) -> list[int]:
    """Positions of the reads without the accumulator that a reduction updates."""
    written = {id(access.buffer) for access in statement.writes}
    return [i for i, read in enumerate(statement.reads) if id(read.buffer) not in written]


def reach(batch: StatementBatch, loops: tuple[Loop, ...], extents: Floats, transaction: int) -> Reach:
    """The reach of a batch's statement. loops, extents (`depth x m`): those of its loops that matter, outside
    in; transaction: the bytes of a line."""
    statement, m, depth = batch.statement, len(batch), len(loops)
    dropped = np.cumsum([0, *(loop not in loops for loop in statement.loops)])
    operands = inputs(statement)
    accesses = (*(statement.reads[i] for i in operands), *statement.writes)
    homes = [batch.homes[i] for i in operands] + list(batch.homes[len(statement.reads) :])
    outer = np.ones((depth + 1, m))
    np.cumprod(extents, axis=0, out=outer[1:])
    iterates = extents > 1
    elements, moves = [], []
    lines, fetched = np.zeros((depth + 1, m)), np.zeros((depth + 1, m))
    for i, (access, home) in enumerate(zip(accesses, homes, strict=True)):
        home = home - dropped[home]
        table = widths_by_depth(access, loops)
        moved = tuple(access.indexed_by(loop) for loop in loops)
        size = float(access.buffer.itemsize)
        touched = np.ones((depth + 1, m))
        weight = 2.0 if i >= len(operands) and (statement.has_init or statement.reduces) else 1.0
        bytes_ = np.ones((depth + 1, m))
        for level in range(depth, -1, -1):
            if level < depth and not moved[level]:
                touched[level], bytes_[level] = touched[level + 1], bytes_[level + 1]
                continue
            row = np.ones(m)
            for width in table[level]:
                row = row * width
            run = table[level][-1] * size if table[level] else size
            inside = home > level
            whole = row * (size * np.ceil(run / transaction) * transaction / run)
            if level < depth and inside.any():
                row = np.where(inside, touched[level + 1], row)
                whole = np.where(inside, bytes_[level + 1], whole)
            touched[level], bytes_[level] = row, whole
        visits = np.ones(m)
        fetched[0] += weight * bytes_[0]
        for level in range(1, depth + 1):
            if moved[level - 1]:
                visits = np.where(iterates[level - 1] & (home < level), outer[level], visits)
            fetched[level] += weight * bytes_[level] * visits
        lines += bytes_
        elements.append(touched)
        moves.append(moved)
    return Reach(accesses, len(operands), elements, moves, lines, fetched)
