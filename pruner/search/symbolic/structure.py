"""Finished symbolic programs, and the statements they are made of, filled in with the rows of a population.

Compute locations make hundreds of structures of one sketch, but few different statements: a statement's
numbers seldom depend on where the others went. So every statement is analysed once, and evaluated once for
all rows that have it, whatever their structures.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from pruner.search.members import Place, Renumbered, data, describe, places
from pruner.search.nest import Loop, Nest, Statement
from pruner.search.parts import MOVING, Part, numbers_of
from pruner.search.symbolic.program import Block, Program
from pruner.search.symbolic.tape import Tape

Ints = NDArray[np.int64]


class Form:
    """A statement of one look whose numbers come from the same slots of the tape, in all structures that
    have it. `fixed` as in `Part`; `moving`: the positions in a sheet's table of the numbers that move."""

    def __init__(
        self, key: Hashable, mixed: tuple[bool, ...], statement: Statement, fixed: Ints, moving: Ints
    ) -> None:
        self.key = key
        self.mixed = mixed
        self.statement = statement
        self.fixed = fixed
        self.moving = moving
        self._places: dict[tuple[int, ...], int] = {}
        self._table = np.empty((0, 0), dtype=np.int64)

    def place(self, place: Place) -> int:
        """The number of a place that the statement takes in some structure."""
        return self._places.setdefault(place.numbers, len(self._places))

    @property
    def places(self) -> Ints:
        """`p x places` int64, `Place.numbers` by the number of the place."""
        if self._table.shape[1] != len(self._places):
            self._table = np.array(list(self._places), dtype=np.int64).T
        return self._table


@dataclass(frozen=True, eq=False)
class Structure:
    """A finished program: a nest whose numbers are ints and polynomials, and per statement of it the numbers
    of its form and of its place."""

    nest: Nest
    forms: Ints
    places: Ints


class Forms:
    """The forms of all structures of a sketch."""

    def __init__(self) -> None:
        self.tape = Tape()
        self.forms: list[Form] = []
        # Slots of the numbers that differ by row, each with its position in a sheet's table.
        self.moving: dict[int, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._statements: dict[tuple[Block | Loop, ...], Statement] = {}
        self._looks: dict[Statement, tuple[Hashable, tuple[int, ...]]] = {}
        self._known_looks: dict[Hashable, Hashable] = {}

    def structure(self, program: Program) -> Structure:
        """The structure of a finished program."""
        statements = tuple(
            [
                self._statement(block, tuple([b.loop for b in path if b.loop is not None]))
                for block, path in program.blocks()
            ]
        )
        nest = Nest(0, statements, program.parallel, program.vectorize, program.unroll)
        common = tuple(map(self.tape.slot, numbers_of(nest, data(statements), ())))
        found = [
            self._form(common, statement, place)
            for statement, place in zip(statements, places(statements), strict=True)
        ]
        table = np.array(found, dtype=np.int64).reshape(-1, 2)
        return Structure(nest, table[:, 0], table[:, 1])

    def _statement(self, block: Block, loops: tuple[Loop, ...]) -> Statement:
        """The block as a statement: the same object for the same block inside the same loops."""
        if (block, *loops) not in self._statements:
            binding = [block.binding[axis.domain] for axis in block.axes if axis.reduce]
            reduces = {loop for form in binding for loop in form.loops()}
            reads, writes = block.bound
            self._statements[(block, *loops)] = Statement(
                name=block.name,
                loops=loops,
                reduces=frozenset(reduces.intersection(loops)),
                reads=reads,
                writes=writes,
                ops=block.ops,
                dtype=block.dtype,
                has_init=block.has_init,
                fetch=block.fetch,
            )
        return self._statements[(block, *loops)]

    def _form(self, common: tuple[int, ...], statement: Statement, place: Place) -> tuple[int, int]:
        """The numbers of a statement's form and of its place there."""
        if statement not in self._looks:
            look, own = describe(statement)
            look = self._known_looks.setdefault(look, look)
            self._looks[statement] = look, tuple(map(self.tape.slot, own))
        look, slots = self._looks[statement]
        # Looks are kept once each, so that they can be told by identity here.
        identity = (id(look), place.mixed, common, slots)
        if identity not in self._numbers:
            self._numbers[identity] = len(self.forms)
            self.forms.append(self._new_form((look, place.mixed), place, statement, (*common, *slots)))
        number = self._numbers[identity]
        return number, self.forms[number].place(place)

    def _new_form(self, key: Hashable, place: Place, statement: Statement, slots: tuple[int, ...]) -> Form:
        constants = [self.tape.constant(slot) for slot in slots]
        fixed = [MOVING if constant is None else constant for constant in constants]
        moving = [
            self.moving.setdefault(slot, len(self.moving))
            for slot, constant in zip(slots, constants, strict=True)
            if constant is None
        ]
        return Form(key, place.mixed, statement, np.array(fixed), np.array(moving, dtype=np.int64))


class Sheet:
    """The numbers of all structures of a sketch, evaluated for rows that are sorted by structure.

    table: `numbers x rows` int64, those of all statements that differ by row.

    Args:
        columns: `width x rows` int64, the decisions.
    """

    def __init__(self, forms: Forms, columns: Ints) -> None:
        self.forms = forms.forms
        self.tape = forms.tape
        # A number is worked out for rows of all structures: outside its own it may divide by zero.
        with np.errstate(divide="ignore"):
            self.values = forms.tape.run(columns)
        self.table = np.empty((len(forms.moving), columns.shape[1]), dtype=np.int64)
        for slot, position in forms.moving.items():
            self.table[position] = self.values[slot]

    def nest(self, structure: Structure, start: int, stop: int) -> Nest:
        """The nest of some of the rows, which all have the structure."""
        statements = SheetStatements(self, structure, start, stop)
        model = structure.nest
        bounds = map(statements.number, (model.parallel, model.vectorize, model.unroll))
        return Nest(stop - start, statements, *bounds)


class SheetStatements(Sequence[Statement]):
    """Statements of rows `start` to `stop` of a sheet, filled in when they are looked at."""

    def __init__(self, sheet: Sheet, structure: Structure, start: int, stop: int) -> None:
        self.sheet = sheet
        self.structure = structure
        self.start = start
        self.stop = stop

    def number(self, symbolic: Any) -> Any:
        """A number of the structure, for these rows."""
        value = self.sheet.values[self.sheet.tape.slot(symbolic)]
        return value[self.start : self.stop] if isinstance(value, np.ndarray) else value

    @cached_property
    def _filled(self) -> tuple[Statement, ...]:
        return tuple(map(Renumbered(self.number).statement, self.structure.nest.statements))

    @overload
    def __getitem__(self, index: int) -> Statement: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Statement]: ...
    def __getitem__(self, index: int | slice) -> Statement | Sequence[Statement]:
        return self._filled[index]

    def __len__(self) -> int:
        return len(self._filled)


def gather(groups: Sequence[tuple[Ints, SheetStatements]]) -> list[Part]:
    """The statements of groups of one sheet, each with its rows' names; alike ones are one part."""
    sheet = groups[0][1].sheet
    structures = [statements.structure for _, statements in groups]
    starts = np.array([statements.start for _, statements in groups])
    sizes = np.array([len(rows) for rows, _ in groups])
    # One entry per group and statement, those of the same form next to each other.
    forms = np.concatenate([structure.forms for structure in structures])
    order = np.argsort(forms, kind="stable")
    forms = forms[order]
    places = np.concatenate([structure.places for structure in structures])[order]
    owners = np.repeat(np.arange(len(groups)), [len(structure.forms) for structure in structures])[order]
    # One entry per row of those: its place, where it stands in the sheet, and its name.
    lengths = sizes[owners]
    ends = np.cumsum(lengths)
    offsets = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
    places = np.repeat(places, lengths)
    at = offsets + np.repeat(starts[owners], lengths)
    firsts = np.cumsum(sizes) - sizes
    rows = np.concatenate([rows for rows, _ in groups])[offsets + np.repeat(firsts[owners], lengths)]
    heads = np.flatnonzero(np.diff(forms, prepend=-1))
    several = np.diff(heads, append=len(forms)) > 1
    bounds = [*(ends[heads] - lengths[heads]).tolist(), len(at)]
    found = []
    for number, start, stop, many in zip(forms[heads].tolist(), bounds, bounds[1:], several, strict=False):
        form, span = sheet.forms[number], slice(start, stop)
        if many:
            moving = sheet.table[form.moving[:, None], at[span]]
        else:  # rows that stand next to each other are read several times faster
            moving = sheet.table[form.moving, at[start] : at[start] + stop - start]
        found.append(
            Part(
                key=form.key,
                mixed=form.mixed,
                statement=form.statement,
                rows=rows[span],
                places=form.places[:, places[span]],
                fixed=form.fixed,
                moving=moving,
            )
        )
    return found
