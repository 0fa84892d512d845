"""A program's statements apart from their numbers: what each looks like and where it stands.

Statements that look alike differ only in numbers (extents, coefficients, dimensions), so one formula serves
all of them, whichever programs and candidates they are from.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from pruner.search.nest import Access, Buffer, Extent, Floor, Linear, Loop, Statement, product


@dataclass(frozen=True)
class Place:
    """Where a statement stands in its program.

    slot: its position in program order. nest: the slot of the first statement of the outermost loop around
    it. branch: how many of its loops other statements share. unrolls: whether some statement of the nest
    reduces. forks: per loop, whether its body holds more than one loop or block. homes: per access, how many
    outer loops its buffer lives inside, 0 for arguments. mixed: per loop, whether any statement below it uses
    it as a reduction.
    """

    slot: int
    nest: int
    branch: int
    unrolls: bool
    forks: tuple[bool, ...]
    homes: tuple[int, ...]
    mixed: tuple[bool, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """All but `mixed`, in order, as one row of a matrix."""
        return (self.slot, self.nest, self.branch, self.unrolls, *self.forks, *self.homes)


def accesses(statement: Statement) -> tuple[Access, ...]:
    """Reads, then writes."""
    return (*statement.reads, *statement.writes)


def places(statements: Sequence[Statement]) -> list[Place]:
    """The place of every statement of a program."""
    children: dict[Loop, object] = {}
    forked: set[Loop] = set()
    shared: set[Loop] = set()
    reduced: set[Loop] = set()
    heads: list[int] = []
    first: dict[Loop, int] = {}
    reducing: set[int] = set()
    for slot, statement in enumerate(statements):
        loops = statement.loops
        reduced |= statement.reduces
        for loop, child in zip(loops, (*loops[1:], statement)[: len(loops)], strict=True):
            if loop not in children:
                children[loop] = child
                continue
            shared.add(loop)
            if children[loop] is not child:
                forked.add(loop)
        heads.append(first.setdefault(loops[0], slot) if loops else slot)
        if statement.has_init or statement.reduces:
            reducing.add(heads[-1])
    homes = _homes(statements)
    return [
        Place(
            slot=slot,
            nest=heads[slot],
            branch=sum([loop in shared for loop in statement.loops]),
            unrolls=heads[slot] in reducing,
            forks=tuple([loop in forked for loop in statement.loops]),
            homes=tuple([homes[touch.buffer] for touch in accesses(statement)]),
            mixed=tuple([loop in reduced for loop in statement.loops]),
        )
        for slot, statement in enumerate(statements)
    ]


def _homes(statements: Sequence[Statement]) -> dict[Buffer, int]:
    """By buffer, the number of loops that all statements using it have in common."""
    common: dict[Buffer, tuple[Loop, ...]] = {}
    for statement in statements:
        for buffer in {touch.buffer for touch in accesses(statement)}:
            loops = () if buffer.argument else statement.loops
            known = common.get(buffer, loops)
            if known is not loops:
                same = [a is b for a, b in zip(known, loops, strict=False)]
                loops = known[: same.index(False) if False in same else len(same)]
            common[buffer] = loops
    return {buffer: len(loops) for buffer, loops in common.items()}


def data(statements: Sequence[Statement]) -> Extent:
    """Bytes of all buffers of a program that are in main memory."""
    buffers = {touch.buffer for statement in statements for touch in accesses(statement)}
    # An int first, so that the sum is one where all shapes are.
    return sum((product(b.shape) * b.itemsize for b in buffers if b.scope == "global"), start=0)


def describe(statement: Statement) -> tuple[Hashable, list[Extent]]:
    """What two statements must have in common to look alike, and the numbers that may differ, in the order
    in which `Renumbered` asks for them."""
    position = {loop: i for i, loop in enumerate(statement.loops)}
    numbers: list[Extent] = [loop.extent for loop in statement.loops]
    known: dict[Buffer, int] = {}

    def linear(index: Linear) -> Hashable:
        numbers.append(index.const)
        terms: list[Hashable] = []
        for term, coefficient in index.terms.items():
            numbers.append(coefficient)
            if isinstance(term, Loop):
                terms.append(position.get(term, -1))
            else:
                numbers.append(term.divisor)
                terms.append((term.remainder, linear(term.inner)))
        return tuple(terms)

    def access(touch: Access) -> Hashable:
        buffer = touch.buffer
        numbers.extend(buffer.shape)
        indices = tuple([linear(index) for index in touch.index])
        number = known.setdefault(buffer, len(known))
        return number, buffer.name, buffer.dtype, buffer.scope, buffer.argument, indices

    key = (
        statement.name,
        tuple([loop in statement.reduces for loop in statement.loops]),
        tuple([(loop.kind, tuple(sorted(loop.annotations.items()))) for loop in statement.loops]),
        tuple([access(read) for read in statement.reads]),
        tuple([access(write) for write in statement.writes]),
        tuple(sorted(statement.ops.items())),
        statement.has_init,
        _fetches(statement),
    )
    return key, [*numbers, statement.fetch] if _fetches(statement) else numbers


def _fetches(statement: Statement) -> bool:
    return not (isinstance(statement.fetch, int) and statement.fetch == 0)


class Renumbered:
    """Copies of a program's statements with other numbers; what they share stays shared.

    Args:
        number: the new number for an old one, called in the order of `describe`.
    """

    def __init__(self, number: Callable[[Extent], Extent]) -> None:
        self._number = number
        self._loops: dict[Loop, Loop] = {}
        self._buffers: dict[Buffer, Buffer] = {}

    def statement(self, old: Statement) -> Statement:
        """The copy of one statement."""
        for loop in old.loops:
            new = Loop(self._number(loop.extent), loop.kind, loop.name, loop.annotations)
            self._loops.setdefault(loop, new)
        return Statement(
            name=old.name,
            loops=tuple([self._loops[loop] for loop in old.loops]),
            reduces=frozenset([self._loops[loop] for loop in old.loops if loop in old.reduces]),
            reads=tuple([self._access(read) for read in old.reads]),
            writes=tuple([self._access(write) for write in old.writes]),
            ops=old.ops,
            dtype=old.dtype,
            has_init=old.has_init,
            fetch=self._number(old.fetch) if _fetches(old) else 0,
        )

    def _access(self, old: Access) -> Access:
        b = old.buffer
        shape = tuple([self._number(dim) for dim in b.shape])
        new = Buffer(b.name, shape, b.dtype, b.itemsize, b.scope, b.argument)
        return Access(self._buffers.setdefault(b, new), tuple([self._linear(index) for index in old.index]))

    def _linear(self, old: Linear) -> Linear:
        const = self._number(old.const)
        terms: dict[Loop | Floor, Extent] = {}
        for term, coefficient in old.terms.items():
            coefficient = self._number(coefficient)
            terms[self._loops.get(term, term) if isinstance(term, Loop) else self._floor(term)] = coefficient
        return Linear(terms, const)

    def _floor(self, old: Floor) -> Floor:
        divisor = self._number(old.divisor)
        return Floor(self._linear(old.inner), divisor, old.remainder)
