"""The block movements of a program's multi-level tiling pattern, found by structure.

The pattern (Pruner, ASPLOS 2025, figure 4) is that of a tiled reduction: an accumulator is initialised,
operands are fetched block by block into a nearer memory and read from there, and the accumulator is written
back. Which buffer plays which part follows from who writes and who reads it, and from where it lives; names
say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pruner.analyzer.symbols import arithmetic
from pruner.search.members import accesses, places
from pruner.search.nest import Access, Buffer, Nest, Statement

# How many operands the pattern follows.
OPERANDS = 2


@dataclass(frozen=True, eq=False)
class Movement:
    """What a statement does with a buffer, by the name of its row. initial: its initialisation does it."""

    row: str
    statement: Statement
    buffer: Buffer
    initial: bool = False


@dataclass(frozen=True, eq=False)
class Operand:
    """What the reduction reads. buffer: as it reads it. staging: the statement that fetches it into that
    buffer, and source: what that reads most of; both None where it is read from where it lies."""

    buffer: Buffer
    staging: Statement | None
    source: Buffer | None


@dataclass(frozen=True, eq=False)
class Pattern:
    """The tiled reduction of a program.

    compute: the statement that updates the accumulator. initial: the one that sets it first, `compute` itself
    while its initialisation is part of it, None if there is none. operands: at most two, in the order that
    the statement has them in; of more, those with the most bytes. write_back: the statement that reads the
    finished accumulator, and output: what it writes; None where the reduction updates its output in place.
    """

    compute: Statement
    accumulator: Buffer
    initial: Statement | None
    operands: tuple[Operand, ...]
    write_back: Statement | None
    output: Buffer | None

    def movements(self) -> Iterator[Movement]:
        """The movements that the program has."""
        if self.initial is not None:
            yield Movement("initialise", self.initial, self.accumulator, initial=True)
        yield Movement("accumulate", self.compute, self.accumulator)
        for letter, operand in zip("ab", self.operands, strict=False):
            if operand.staging is not None and operand.source is not None:
                yield Movement(f"read_{letter}", operand.staging, operand.source)
                yield Movement(f"stage_{letter}", operand.staging, operand.buffer)
            yield Movement(f"staged_{letter}", self.compute, operand.buffer)
        if self.write_back is not None and self.output is not None:
            yield Movement("read_accumulator", self.write_back, self.accumulator)
            yield Movement("write_output", self.write_back, self.output)


def find_pattern(nest: Nest) -> Pattern | None:
    """The pattern of the reduction with the most operations, the first of several; None if there is none."""
    statements = list(nest.statements)
    where = places(statements)
    reducing = [s for s in statements if (s.has_init or s.reduces) and s.writes]
    if not reducing:
        return None
    compute = max(reducing, key=_operations)
    head = where[statements.index(compute)].nest
    near = [s for s, place in zip(statements, where, strict=True) if place.nest == head]
    before, after = near[: near.index(compute)], near[near.index(compute) + 1 :]
    # A buffer that outlives the nest is no stage: whoever reads it does so from memory.
    homes = {
        access.buffer: home
        for s, place in zip(statements, where, strict=True)
        for access, home in zip(accesses(s), place.homes, strict=True)
    }
    accumulator = compute.writes[0].buffer
    initial = compute if compute.has_init else _last([s for s in before if _sets(s, accumulator)])
    write_back = None
    if homes[accumulator]:
        write_back = next((s for s in after if _reads(s, accumulator) and s.writes), None)
    return Pattern(
        compute=compute,
        accumulator=accumulator,
        initial=initial,
        operands=tuple([_operand(buffer, before, homes[buffer]) for buffer in _inputs(compute)]),
        write_back=write_back,
        output=None if write_back is None else write_back.writes[0].buffer,
    )


def _operations(statement: Statement) -> float:
    """Operations of all instances, of the first candidate: a reduction has as many in all of them."""
    instances = float(np.ravel(statement.instances)[0])
    return instances * max(1, arithmetic(statement.ops))


def _inputs(compute: Statement) -> list[Buffer]:
    """The buffers that the pattern follows."""
    written = {access.buffer for access in compute.writes}
    found: dict[Buffer, float] = {}
    for read in compute.reads:
        if read.buffer not in written:
            found[read.buffer] = max(found.get(read.buffer, 0.0), _bytes(read, compute))
    largest = sorted(found, key=lambda buffer: -found[buffer])[:OPERANDS]
    return [buffer for buffer in found if buffer in largest]


def _bytes(access: Access, statement: Statement) -> float:
    """Bytes that all loops touch, of the first candidate."""
    return float(np.ravel(access.footprint(statement.loops))[0]) * access.buffer.itemsize


def _operand(buffer: Buffer, before: Sequence[Statement], home: int) -> Operand:
    staging = _last([s for s in before if any(w.buffer is buffer for w in s.writes)]) if home else None
    if staging is None or not staging.reads:
        return Operand(buffer, None, None)
    source = max(staging.reads, key=lambda read: _bytes(read, staging)).buffer
    return Operand(buffer, staging, source)


def _last(statements: Sequence[Statement]) -> Statement | None:
    return statements[-1] if statements else None


def _sets(statement: Statement, buffer: Buffer) -> bool:
    return not statement.reads and any(write.buffer is buffer for write in statement.writes)


def _reads(statement: Statement, buffer: Buffer) -> bool:
    return any(read.buffer is buffer for read in statement.reads)
