"""Comparisons of numbers that differ by row, and choices between them.

A 0/1 value may be evaluated as a bool: it chooses between numbers, or counts alone; two of them do not add
up to 2.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pruner.search.symbolic.polynomial import Atom, Monomial, Polynomial, equal


def _apply(op: str, plain: Callable[..., Any], *args: Any) -> Any:
    for arg in args:
        if isinstance(arg, Polynomial):
            return arg.table.operation(op, *args)
    return plain(*args)


def bounds(value: Any) -> tuple[int | None, int | None]:
    """A value that no row is below and one that none is above; None where nothing is known."""
    if not isinstance(value, Polynomial):
        return value, value
    low: int | None = 0
    high: int | None = 0
    for mono, c in value.terms.items():
        least, most = _bounds_of_product(mono)
        if c < 0:
            least, most = most, least
        low = None if low is None or least is None else low + c * least
        high = None if high is None or most is None else high + c * most
    return low, high


def _bounds_of_product(mono: Monomial) -> tuple[int | None, int | None]:
    """Bounds of a product of atoms, none of which is negative. Different factors of one tile are together at
    most its extent."""
    low: int | None = 1
    high: int | None = 1
    used: list[Atom] = []
    for atom in mono:
        least, most = _bounds_of_atom(atom)
        if least is None or least < 0:
            return None, None
        if atom.tile is not None and atom not in used and any(a.tile is atom.tile for a in used):
            most = 1
        used.append(atom)
        low = None if low is None else low * least
        high = None if high is None or most is None else high * most
    return low, high


def _bounds_of_atom(atom: Atom) -> tuple[int | None, int | None]:
    if atom.bounds is None:
        atom.bounds = None, None
        if atom.tile is not None:
            atom.bounds = 1, atom.tile.extent
        elif atom.op == "lookup":
            atom.bounds = min(atom.args[1]), max(atom.args[1])
        elif atom.op == "whole":
            atom.bounds = bounds(atom.args[0])
    return atom.bounds


def smaller(a: Any, b: Any) -> Any:
    """The minimum."""
    low, high = bounds(a - b)
    if high is not None and high <= 0:
        return a
    if low is not None and low >= 0:
        return b
    return _apply("min", min, a, b)


def larger(a: Any, b: Any) -> Any:
    """The maximum."""
    low, high = bounds(a - b)
    if high is not None and high <= 0:
        return b
    if low is not None and low >= 0:
        return a
    return _apply("max", max, a, b)


def divisor(a: Any, b: Any) -> Any:
    """The greatest common divisor."""
    return _apply("gcd", _gcd, a, b)


def _gcd(a: int, b: int) -> int:
    return int(np.gcd(a, b))


def at_most(a: Any, b: Any) -> Any:
    """1 where `a <= b`, else 0."""
    low, high = bounds(a - b)
    if high is not None and high <= 0:
        return 1
    if low is not None and low > 0:
        return 0
    return _apply("le", operator.le, a, b)


def same(a: Any, b: Any) -> Any:
    """1 where `a == b`, else 0."""
    difference = a - b
    if isinstance(difference, int):
        return int(difference == 0)
    return _apply("eq", operator.eq, a, b)


def both(a: Any, b: Any) -> Any:
    """Logical and of two 0/1 values."""
    if isinstance(a, int):
        return b if a else 0
    if isinstance(b, int):
        return a if b else 0
    return _apply("and", min, a, b)


def either(a: Any, b: Any) -> Any:
    """Logical or of two 0/1 values."""
    if isinstance(a, int):
        return 1 if a else b
    if isinstance(b, int):
        return 1 if b else a
    return _apply("or", max, a, b)


def negate(a: Any) -> Any:
    """Logical not of a 0/1 value."""
    return choose(a, 0, 1)


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the 0/1 condition holds, else `no`."""
    if isinstance(condition, int):
        return yes if condition else no
    if equal(yes, no):
        return yes
    return _apply("where", min, condition, yes, no)


def conjuncts(value: Any) -> list[Any]:
    """The 0/1 values whose logical and a 0/1 value is."""
    atom = _only_atom(value)
    if atom is None or atom.op != "and":
        return [value]
    return [part for arg in atom.args for part in conjuncts(arg)]


def is_ceiling(value: Any) -> bool:
    """Whether a 0/1 value says that something is at most a number, and the something grows with all that is
    looked up in it and depends on nothing else."""
    atom = _only_atom(value)
    return atom is not None and atom.op == "le" and isinstance(atom.args[1], int) and _grows(atom.args[0])


def _only_atom(value: Any) -> Atom | None:
    if not isinstance(value, Polynomial) or len(value.terms) != 1:
        return None
    [(mono, c)] = value.terms.items()
    return mono[0] if len(mono) == 1 and c == 1 else None


def _grows(value: Any) -> bool:
    if not isinstance(value, Polynomial):
        return True
    atoms = {atom for mono in value.terms for atom in mono}
    signs = all(c > 0 for mono, c in value.terms.items() if mono)
    return signs and all(a.op == "lookup" or (a.op == "whole" and _grows(a.args[0])) for a in atoms)


def negative(value: Any) -> bool:
    """Whether a coefficient is negative: its terms have one sign, columns being positive."""
    return value < 0 if isinstance(value, int) else all(c < 0 for c in value.terms.values())
