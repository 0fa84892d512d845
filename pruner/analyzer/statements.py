"""Statements of the same shape, taken from many nests, as one statement with longer vectors.

A population falls into groups that share a structure, and compute locations can make a hundred groups of
a few dozen rows. Their statements are mostly alike: the convolution itself has the same loops wherever its
padding is computed. Merging them first means that a formula runs once per distinct statement, not per group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.search.members import Renumbered
from pruner.search.nest import Extent, Loop, Nest, Statement
from pruner.search.parts import COMMON, MOVING, Part, parts_of
from pruner.search.symbolic.structure import Sheet, SheetStatements, gather


@dataclass(eq=False)
class StatementBatch:
    """One statement for `len(rows)` candidates.

    statement: its extents and coefficients are ints or int64[m], m = len(rows).
    rows: int64[m], the candidates.
    slot: int64[m], the statement's position in each candidate's program.
    nest: int64[m], the slot of the first statement of the outermost loop it stands in.
    branch: int64[m], how many of its loops, from outside, other statements share (all inside the same nest).
    forks: `depth x m` bool, whether the loop's body holds more than one loop or block.
    mixed: per loop, whether any statement below the loop uses it as a reduction.
    homes: per access (reads, then writes) int64[m]: how many outer loops its buffer lives inside. TVM shrinks
        an intermediate buffer to what is alive there, so those loops reuse the same memory; 0 for arguments.
    data: int64[m], bytes of all buffers of the program.
    unrolls: bool[m], whether the unroll pragma reaches the nest (some block in it reduces).
    parallel, vectorize: the root block's bounds, int64[m]; unroll: the pragma's step count, int64[m].
    """

    statement: Statement
    rows: NDArray[np.int64]
    slot: NDArray[np.int64]
    nest: NDArray[np.int64]
    branch: NDArray[np.int64]
    forks: NDArray[np.bool_]
    mixed: tuple[bool, ...]
    homes: tuple[NDArray[np.int64], ...]
    data: NDArray[np.int64]
    unrolls: NDArray[np.bool_]
    parallel: NDArray[np.int64]
    vectorize: NDArray[np.int64]
    unroll: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def extents(self) -> NDArray[np.int64]:
        """`depth x m`, the loops' extents from outside in."""
        extents = np.empty((len(self.statement.loops), len(self)), dtype=np.int64)
        for level, loop in enumerate(self.statement.loops):
            extents[level] = loop.extent
        return extents

    def live_loops(self) -> tuple[tuple[Loop, ...], NDArray[np.float64]]:
        """The loops that have more than one iteration in some row, and their extents, `depth x m`."""
        live = [loop for loop in self.statement.loops if np.any(np.not_equal(loop.extent, 1))]
        extents = np.empty((len(live), len(self)))
        for level, loop in enumerate(live):
            extents[level] = loop.extent
        return tuple(live), extents


def batches(groups: Iterable[tuple[NDArray[np.int64], Nest]]) -> list[StatementBatch]:
    """The statements of all groups, those that look alike merged. `groups` as `Space.nests` yields them."""
    alike: dict[Hashable, list[Part]] = {}
    for part in _parts(groups):
        alike.setdefault(part.key, []).append(part)
    found = [_merge(parts) for parts in alike.values()]
    # In an order that does not depend on which structures were met first.
    return sorted(found, key=_first)


def _parts(groups: Iterable[tuple[NDArray[np.int64], Nest]]) -> Iterator[Part]:
    sheets: dict[Sheet, list[tuple[NDArray[np.int64], SheetStatements]]] = {}
    for rows, nest in groups:
        if isinstance(nest.statements, SheetStatements):
            sheets.setdefault(nest.statements.sheet, []).append((rows, nest.statements))
        else:
            yield from parts_of(rows, nest)
    for members in sheets.values():
        yield from gather(members)


def _first(batch: StatementBatch) -> tuple[int, int]:
    first = int(np.argmin(batch.rows))
    return int(batch.rows[first]), int(batch.slot[first])


def _merge(parts: Sequence[Part]) -> StatementBatch:
    numbers = _joined(parts)
    model = parts[0].statement
    m = sum(len(part.rows) for part in parts)

    def column(number: Extent) -> NDArray[np.int64]:
        return np.broadcast_to(np.asarray(number, dtype=np.int64), m)

    data, parallel, vectorize, unroll = map(column, numbers[:COMMON])
    own = iter(numbers[COMMON:])
    places = np.concatenate([part.places for part in parts], axis=1)
    slot, nest, branch, unrolls = places[:4]
    depth = len(model.loops)
    return StatementBatch(
        statement=Renumbered(lambda _: next(own)).statement(model),
        rows=np.concatenate([part.rows for part in parts]),
        slot=slot,
        nest=nest,
        branch=branch,
        forks=places[4 : 4 + depth].astype(bool),
        mixed=parts[0].mixed,
        homes=tuple(places[4 + depth :]),
        data=data,
        unrolls=unrolls.astype(bool),
        parallel=parallel,
        vectorize=vectorize,
        unroll=unroll,
    )


def _joined(parts: Sequence[Part]) -> list[Extent]:
    """The parts' numbers as one list: an int where all agree, else one entry per row."""
    if len(parts) == 1:
        moving = iter(parts[0].moving)
        return [next(moving) if number == MOVING else number for number in parts[0].fixed.tolist()]
    fixed = np.stack([part.fixed for part in parts])
    differs = np.flatnonzero((fixed == MOVING).any(axis=0) | (fixed != fixed[0]).any(axis=0))
    table = np.empty((len(differs), sum(len(part.rows) for part in parts)), dtype=np.int64)
    start = 0
    for own, part in zip(fixed[:, differs], parts, strict=True):
        columns = table[:, start : start + len(part.rows)]
        columns[:] = own[:, None]
        columns[own == MOVING] = part.moving
        start += len(part.rows)
    numbers: list[Extent] = fixed[0].tolist()
    for j, row in zip(differs.tolist(), table, strict=True):
        numbers[j] = row
    return numbers
