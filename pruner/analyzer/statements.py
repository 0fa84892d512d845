"""Statements of the same shape, taken from many nests, as one statement with longer vectors.

A population falls into groups that share a structure, and compute locations can make a hundred groups of
a few dozen rows. Their statements are mostly alike: the convolution itself has the same loops wherever its
padding is computed. Merging them first means that a formula runs once per distinct statement, not per group.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.search.nest import Access, Buffer, Extent, Floor, Linear, Loop, Nest, Statement, product


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


@dataclass(eq=False)
class _Member:
    statement: Statement
    rows: NDArray[np.int64]
    slot: int
    nest: int
    branch: int
    forks: tuple[bool, ...]
    mixed: tuple[bool, ...]
    homes: tuple[int, ...]
    data: Extent
    unrolls: bool
    owner: Nest
    values: list[Extent]


def batches(groups: Iterable[tuple[NDArray[np.int64], Nest]]) -> list[StatementBatch]:
    """The statements of all groups, those of the same shape merged. `groups` as `Space.nests` yields them."""
    members: dict[Hashable, list[_Member]] = {}
    for rows, nest in groups:
        for key, member in _members(rows, nest):
            members.setdefault(key, []).append(member)
    return [_merge(alike) for alike in members.values()]


def _members(rows: NDArray[np.int64], nest: Nest) -> Iterable[tuple[Hashable, _Member]]:
    statements = nest.statements
    children: dict[Loop, set[int]] = {}
    reduced: set[Loop] = set()
    users: dict[Loop, int] = {}
    first: dict[Loop, int] = {}
    reduces: dict[int, bool] = {}
    homes = _homes(nest)
    buffers = {id(touch.buffer): touch.buffer for s in statements for touch in (*s.reads, *s.writes)}
    data = sum(product(buffer.shape) * buffer.itemsize for buffer in buffers.values())
    for slot, statement in enumerate(statements):
        loops = statement.loops
        reduced |= statement.reduces
        for depth, loop in enumerate(loops):
            child = loops[depth + 1] if depth + 1 < len(loops) else statement
            children.setdefault(loop, set()).add(id(child))
            users[loop] = users.get(loop, 0) + 1
        head = first.setdefault(loops[0], slot) if loops else slot
        reduces[head] = reduces.get(head, False) or statement.has_init or bool(statement.reduces)
    for slot, statement in enumerate(statements):
        loops = statement.loops
        head = first[loops[0]] if loops else slot
        forks = tuple(len(children[loop]) > 1 for loop in loops)
        mixed = tuple(loop in reduced for loop in loops)
        pattern, values = _describe(statement)
        branch = sum(users[loop] > 1 for loop in loops)
        touches = (*statement.reads, *statement.writes)
        member = _Member(
            statement=statement,
            rows=rows,
            slot=slot,
            nest=head,
            branch=branch,
            forks=forks,
            mixed=mixed,
            homes=tuple(homes[id(touch.buffer)] for touch in touches),
            data=data,
            unrolls=reduces[head],
            owner=nest,
            values=values,
        )
        yield (pattern, mixed), member


def _homes(nest: Nest) -> dict[int, int]:
    """By buffer (its id), the number of loops that all statements using it have in common."""
    common: dict[int, tuple[Loop, ...]] = {}
    for statement in nest.statements:
        for touch in (*statement.reads, *statement.writes):
            loops = () if touch.buffer.argument else statement.loops
            shared = common.get(id(touch.buffer), loops)
            same = [a is b for a, b in zip(shared, loops, strict=False)]
            common[id(touch.buffer)] = shared[: same.index(False) if False in same else len(same)]
    return {buffer: len(loops) for buffer, loops in common.items()}


def _describe(statement: Statement) -> tuple[Hashable, list[Extent]]:
    """What must be equal for two statements to merge, and the numbers that may differ, in a fixed order."""
    position = {loop: i for i, loop in enumerate(statement.loops)}
    values: list[Extent] = [loop.extent for loop in statement.loops]

    def linear(index: Linear) -> Hashable:
        values.append(index.const)
        terms: list[Hashable] = []
        for term, coefficient in index.terms.items():
            values.append(coefficient)
            if isinstance(term, Loop):
                terms.append(position.get(term, -1))
            else:
                values.append(term.divisor)
                terms.append((term.remainder, linear(term.inner)))
        return tuple(terms)

    numbers: dict[int, int] = {}

    def access(touch: Access) -> Hashable:
        buffer = touch.buffer
        values.extend(buffer.shape)
        indices = tuple(linear(index) for index in touch.index)
        number = numbers.setdefault(id(buffer), len(numbers))
        return number, buffer.name, buffer.dtype, buffer.scope, buffer.argument, indices

    key = (
        statement.name,
        tuple(loop in statement.reduces for loop in statement.loops),
        tuple((loop.kind, bool(loop.annotations)) for loop in statement.loops),
        tuple(access(read) for read in statement.reads),
        tuple(access(write) for write in statement.writes),
        tuple(sorted(statement.ops.items())),
        statement.has_init,
    )
    return key, values


def _merge(members: Sequence[_Member]) -> StatementBatch:
    sizes = [len(member.rows) for member in members]
    merged = iter([_join(column, sizes) for column in zip(*(m.values for m in members), strict=True)])
    model = members[0].statement
    loops = {loop: Loop(next(merged), loop.kind, loop.name, loop.annotations) for loop in model.loops}

    def linear(index: Linear) -> Linear:
        const = next(merged)
        terms: dict[Loop | Floor, Extent] = {}
        for term in index.terms:
            coefficient = next(merged)
            if isinstance(term, Loop):
                terms[loops.get(term, term)] = coefficient
            else:
                divisor = next(merged)
                terms[Floor(linear(term.inner), divisor, term.remainder)] = coefficient
        return Linear(terms, const)

    buffers: dict[int, Buffer] = {}

    def access(touch: Access) -> Access:
        old = touch.buffer
        shape = tuple(next(merged) for _ in old.shape)
        new = Buffer(old.name, shape, old.dtype, old.itemsize, old.scope, old.argument)
        return Access(buffers.setdefault(id(old), new), tuple(linear(index) for index in touch.index))

    statement = Statement(
        name=model.name,
        loops=tuple(loops.values()),
        reduces=frozenset(loops[loop] for loop in model.loops if loop in model.reduces),
        reads=tuple(access(read) for read in model.reads),
        writes=tuple(access(write) for write in model.writes),
        ops=model.ops,
        dtype=model.dtype,
        has_init=model.has_init,
    )

    def column(values: Sequence[Extent]) -> NDArray[np.int64]:
        joined = _join(values, sizes)
        return np.full(sum(sizes), joined, dtype=np.int64) if isinstance(joined, int) else joined

    forks = np.repeat(np.array([m.forks for m in members], dtype=bool), sizes, axis=0).T
    return StatementBatch(
        statement=statement,
        rows=np.concatenate([member.rows for member in members]),
        slot=column([m.slot for m in members]),
        nest=column([m.nest for m in members]),
        branch=column([m.branch for m in members]),
        forks=forks,
        mixed=members[0].mixed,
        homes=tuple(column(list(homes)) for homes in zip(*(m.homes for m in members), strict=True)),
        data=column([m.data for m in members]),
        unrolls=np.repeat([m.unrolls for m in members], sizes),
        parallel=column([m.owner.parallel for m in members]),
        vectorize=column([m.owner.vectorize for m in members]),
        unroll=column([m.owner.unroll for m in members]),
    )


def _join(values: Sequence[Extent], sizes: Sequence[int]) -> Extent:
    """The members' numbers as one: an int where all agree, else one entry per row."""
    head = values[0]
    if isinstance(head, int) and all(isinstance(v, int) and v == head for v in values):
        return head
    if len(values) == 1:
        return head
    joined = np.empty(sum(sizes), dtype=np.int64)
    start = 0
    for value, size in zip(values, sizes, strict=True):
        joined[start : start + size] = value
        start += size
    return joined
