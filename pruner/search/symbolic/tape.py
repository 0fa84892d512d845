"""Evaluates many polynomials for a whole matrix of decisions, shared parts once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.search.symbolic.polynomial import Atom, Monomial, Polynomial

_RUN: dict[str, Callable[..., Any]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": np.minimum,
    "max": np.maximum,
    "gcd": np.gcd,
    "le": operator.le,
    "eq": operator.eq,
    "and": np.logical_and,
    "or": np.logical_or,
    "where": np.where,
    "lookup": lambda column, table: table[column],
}


class Tape:
    """Straight-line code for a set of polynomials. `slot(value)` is where the value stands after `run`."""

    def __init__(self) -> None:
        self._inputs: list[tuple[int, int]] = []  # (slot, column)
        self._code: list[tuple[Callable[..., Any], int, int, int]] = []
        self._start: list[Any] = []
        self._slots: dict[Any, int] = {}

    def slot(self, value: Any) -> int:
        """The slot of a polynomial or a constant, with the code it needs."""
        if not isinstance(value, Polynomial):
            return self._constant(value)
        key = ("p", value.key)
        if key in self._slots:
            return self._slots[key]
        total: int | None = None
        for mono in sorted((m for m in value.terms if m), key=lambda m: tuple(a.uid for a in m)):
            part, c = self._monomial(mono), value.terms[mono]
            if total is not None and c == 1:
                total = self._emit(operator.add, total, part)
            elif total is not None and c == -1:
                total = self._emit(operator.sub, total, part)
            else:
                scaled = part if c == 1 else self._emit(operator.mul, part, self._constant(c))
                total = scaled if total is None else self._emit(operator.add, total, scaled)
        assert total is not None
        if () in value.terms:
            total = self._emit(operator.add, total, self._constant(value.terms[()]))
        self._slots[key] = total
        return total

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns that `run` reads."""
        return tuple(column for _, column in self._inputs)

    def constant(self, slot: int) -> Any:
        """The number that stands in a slot whatever the row; None where it differs by row."""
        return self._start[slot]

    def _constant(self, value: Any) -> int:
        key = ("c", value)
        if key not in self._slots:
            self._slots[key] = self._place(value)
        return self._slots[key]

    def _place(self, value: Any) -> int:
        self._start.append(value)
        return len(self._start) - 1

    def _emit(self, function: Callable[..., Any], a: int, b: int) -> int:
        key = (function, a, b)
        if key not in self._slots:
            self._slots[key] = self._place(None)
            self._code.append((function, a, b, self._slots[key]))
        return self._slots[key]

    def _monomial(self, mono: Monomial) -> int:
        slot = self._atom(mono[-1])
        for atom in reversed(mono[:-1]):
            slot = self._emit(operator.mul, self._atom(atom), slot)
        return slot

    def _atom(self, atom: Atom) -> int:
        key = ("a", atom.uid)
        if key in self._slots:
            return self._slots[key]
        if atom.op == "column":
            slot = self._place(None)
            self._inputs.append((slot, atom.args[0]))
        elif atom.op == "whole":
            slot = self.slot(atom.args[0])
        elif atom.op == "lookup":
            table = self._place(np.array(atom.args[1], dtype=np.int64))
            slot = self._emit(_RUN["lookup"], self.slot(atom.args[0]), table)
        elif len(atom.args) == 2:
            slot = self._emit(_RUN[atom.op], self.slot(atom.args[0]), self.slot(atom.args[1]))
        else:
            condition, yes, no = (self.slot(arg) for arg in atom.args)
            pair = self._place(None)
            self._code.append((_pair, yes, no, pair))
            slot = self._emit(_where, condition, pair)
        self._slots[key] = slot
        return slot

    def run(self, columns: NDArray[np.int64] | Mapping[int, NDArray[np.int64] | int]) -> list[Any]:
        """All slots for the rows of `columns` (`width x rows`, or int64[rows] or one number by column): ints
        or arrays over the rows."""
        values = self._start.copy()
        for slot, column in self._inputs:
            values[slot] = columns[column]
        for function, a, b, slot in self._code:
            values[slot] = function(values[a], values[b])
        return values


def _pair(yes: Any, no: Any) -> tuple[Any, Any]:
    return yes, no


def _where(condition: Any, pair: tuple[Any, Any]) -> Any:
    return np.where(condition, pair[0], pair[1])
