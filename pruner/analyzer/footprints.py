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
    levels, each = np.arange(depth + 1)[:, None], np.arange(m)
    outer = np.ones((depth + 1, m))
    np.cumprod(extents, axis=0, out=outer[1:])
    iterates = extents > 1
    elements, moves = [], []
    lines, fetched = np.zeros((depth + 1, m)), np.zeros((depth + 1, m))
    for i, (access, home) in enumerate(zip(accesses, homes, strict=True)):
        home = home - dropped[home]
        moving = {loop for index in access.index for loop in index.loops()}
        moved = tuple([loop in moving for loop in loops])
        size = float(access.buffer.itemsize)
        touched, run = _elements(access, loops, m)
        bytes_ = np.ceil(run * (size / transaction))
        bytes_ *= transaction
        bytes_ *= touched / run
        if home.any():
            # Inside the loops that a buffer lives in, what all of them touch is what one turn touches.
            inner = np.maximum(levels, np.minimum(home, depth))
            touched, bytes_ = touched[inner, each], bytes_[inner, each]
        # What is loaded at a depth is loaded again in each turn of the loops out to the last that moves it.
        # Turns of that last loop that overlap, the windows of a convolution, load what is new alone.
        turns, overlapped = np.ones((depth + 1, m)), np.full((depth + 1, m), np.inf)
        for level in range(depth):
            turns[level + 1], overlapped[level + 1] = turns[level], overlapped[level]
            if moved[level]:
                refetched = iterates[level] & (home <= level)
                np.copyto(turns[level + 1], outer[level + 1], where=refetched)
                np.copyto(overlapped[level + 1], bytes_[level] * outer[level], where=refetched)
        weight = 2.0 if i >= len(operands) and (statement.has_init or statement.reduces) else 1.0
        lines += bytes_
        turns *= bytes_
        fetched += weight * np.minimum(turns, overlapped, out=turns)
        elements.append(touched)
        moves.append(moved)
    return Reach(accesses, len(operands), elements, moves, lines, fetched)


def _elements(access: Access, loops: tuple[Loop, ...], m: int) -> tuple[Floats, Floats]:
    """`(depth + 1) x m` each: elements touched while the loops from a depth inwards run, and how many of
    them lie next to each other; of a buffer with memory of its own in every turn of every loop."""
    touched = run = np.ones((len(loops) + 1, m))
    for number, widths in enumerate(zip(*widths_by_depth(access, loops), strict=True)):
        run = np.empty_like(touched)
        for level, width in enumerate(widths):
            run[level] = width
        touched = touched * run if number else run
    return touched, run
