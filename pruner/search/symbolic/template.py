"""A finished symbolic program, ready to be filled in with the rows of a population."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.search.nest import Access, Buffer, Floor, Linear, Loop, Nest, Statement
from pruner.search.symbolic.polynomial import Polynomial, both
from pruner.search.symbolic.program import Block, Program
from pruner.search.symbolic.tape import Tape

_Form = tuple[tuple[tuple[int, int], ...], int]  # ((term, coefficient slot), …), constant slot


class Template:
    """Makes nests of one structure."""

    def __init__(self, program: Program) -> None:
        self._tape = Tape()
        self._parallel, self._vectorize = program.parallel, program.vectorize
        self._unroll = self._tape.slot(program.unroll)
        self._loops: list[tuple[int, str]] = []
        self._loop_ids: dict[Loop, int] = {}
        self._floors: list[tuple[_Form, int, bool]] = []
        self._floor_ids: dict[Floor, int] = {}
        self._forms: list[_Form] = []
        self._form_ids: dict[_Form, int] = {}
        self._buffers: list[tuple[Buffer, tuple[int, ...] | None]] = []
        self._buffer_ids: dict[int, int] = {}
        self._statements = [
            self._statement(block, tuple(b.loop for b in path if b.loop is not None))
            for block, path in program.blocks()
        ]
        legal: Any = 1
        for condition in program.constant:
            legal = both(legal, condition)
        self._legal_tape = Tape()
        self._legal = self._legal_tape.slot(legal)

    def _statement(self, block: Block, loops: tuple[Loop, ...]) -> Any:
        for loop in loops:
            if loop not in self._loop_ids:
                self._loop_ids[loop] = len(self._loops)
                self._loops.append((self._tape.slot(loop.extent), loop.name))
        reduces = {loop for axis in block.axes if axis.reduce for loop in block.binding[axis.domain].loops()}
        return (
            block,
            tuple(self._loop_ids[loop] for loop in loops),
            tuple(self._loop_ids[loop] for loop in loops if loop in reduces),
            tuple(map(self._access, block.bound[0])),
            tuple(map(self._access, block.bound[1])),
        )

    def _access(self, access: Access) -> tuple[int, tuple[int, ...]]:
        if id(access.buffer) not in self._buffer_ids:
            self._buffer_ids[id(access.buffer)] = len(self._buffers)
            shape = access.buffer.shape
            moving = any(isinstance(dim, Polynomial) for dim in shape)
            slots = tuple(map(self._tape.slot, shape)) if moving else None
            self._buffers.append((access.buffer, slots))
        forms = []
        for index in access.index:
            form = self._form(index)
            if form not in self._form_ids:
                self._form_ids[form] = len(self._forms)
                self._forms.append(form)
            forms.append(self._form_ids[form])
        return self._buffer_ids[id(access.buffer)], tuple(forms)

    def _form(self, form: Linear) -> _Form:
        terms = []
        for term, coefficient in form.terms.items():
            if isinstance(term, Loop):
                place = self._loop_ids[term]
            else:
                if term not in self._floor_ids:
                    # Terms of a form are filled in after those inside it: inner floors get lower numbers.
                    parts = (self._form(term.inner), self._tape.slot(term.divisor), term.remainder)
                    self._floor_ids[term] = len(self._floors)
                    self._floors.append(parts)
                place = -1 - self._floor_ids[term]
            terms.append((place, self._tape.slot(coefficient)))
        return tuple(terms), self._tape.slot(form.const)

    def legal(self, columns: NDArray[np.int64]) -> Any:
        """1 in the rows whose loops all have constant extents; an int or an array over the rows."""
        return self._legal_tape.run(columns)[self._legal]

    def nest(self, columns: NDArray[np.int64]) -> Nest:
        """The nest of the rows of `columns` (`width x rows`)."""
        values = self._tape.run(columns)
        loops = [Loop(values[slot], name=name) for slot, name in self._loops]
        floors: list[Floor] = []

        def fill(form: _Form) -> Linear:
            terms, const = form
            return Linear(
                {(loops[t] if t >= 0 else floors[-1 - t]): values[slot] for t, slot in terms}, values[const]
            )

        for inner, divisor, remainder in self._floors:
            floors.append(Floor(fill(inner), values[divisor], remainder))
        forms = [fill(form) for form in self._forms]
        buffers = [_buffer(buffer, slots, values) for buffer, slots in self._buffers]
        statements = []
        for block, around, reduces, reads, writes in self._statements:
            statements.append(
                Statement(
                    name=block.name,
                    loops=tuple([loops[i] for i in around]),
                    reduces=frozenset([loops[i] for i in reduces]),
                    reads=tuple([Access(buffers[b], tuple([forms[f] for f in index])) for b, index in reads]),
                    writes=tuple(
                        [Access(buffers[b], tuple([forms[f] for f in index])) for b, index in writes]
                    ),
                    ops=block.ops,
                    dtype=block.dtype,
                    has_init=block.has_init,
                )
            )
        rows = columns.shape[1]
        return Nest(rows, tuple(statements), self._parallel, self._vectorize, values[self._unroll])


def _buffer(buffer: Buffer, slots: tuple[int, ...] | None, values: list[Any]) -> Buffer:
    if slots is None:
        return buffer
    shape = tuple([values[slot] for slot in slots])
    return Buffer(buffer.name, shape, buffer.dtype, buffer.itemsize, buffer.scope, buffer.argument)
