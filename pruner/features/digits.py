"""Digits of sums of loops, and how TVM's simplifier takes a sum apart (rewrite_simplify.cc,
canonical_simplify.cc), for many candidates at once.

A digit is `x // low % (up // low)`. Which digits a sum becomes differs by row: one that is not there in a row
has the scale 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Stands for no upper end: the digit is no remainder.
ENDLESS = np.int64(1) << 60


@dataclass(frozen=True, eq=False)
class Atom:
    """`coef * (loop // low % up)`, int64[m] each. level: of the loop in the store. extent: the loop's."""

    level: Ints
    coef: Ints
    extent: Ints
    low: Ints
    up: Ints


@dataclass(frozen=True, eq=False)
class Digit:
    """`scale * ((const + sum of atoms) // low % (up // low))`, int64[m] each; scale 0 where it is not there.
    One atom alone has the coefficient, low and up of its digit. at: the level of a digit that is one whole
    loop in all rows, None of others."""

    atoms: tuple[Atom, ...]
    const: Ints
    low: Ints
    up: Ints
    scale: Ints
    at: int | None = None


def split(atoms: Sequence[Atom], const: Ints, low: Ints, up: Ints, scale: Ints) -> Iterator[Digit]:
    """The digits of `scale * ((const + sum of atoms) // low % (up // low))`; atoms from outside in."""
    if const.any():
        yield _opaque(atoms, const, low, up, scale)
        return
    if len(atoms) == 1:
        yield _single(atoms[0], low, up, scale)
        return
    # The division first: whole multiples leave it, the rest stays.
    ends = up < ENDLESS
    top = np.where(ends, np.maximum(up // low, 1), ENDLESS)
    whole, rest = [], []
    for atom in atoms:
        blocks = (atom.coef % low == 0) & ~(ends & (atom.coef // low % top == 0))
        whole.append(replace(atom, coef=np.where(blocks, atom.coef // low, 0)))
        rest.append(replace(atom, coef=np.where(atom.coef % low == 0, 0, atom.coef)))
    left = most(rest)
    free = ~ends | (most(whole) + left // low < top)
    parts = _Parts(whole, rest, low, up, top, left >= low)
    yield from parts.sum(np.where(free, scale, 0))
    scale = np.where(free, 0, scale)
    if scale.any():
        yield from parts.remainder(scale)


class _Parts:
    """A sum of atoms divided by `low`: `whole + rest // low`, `some` where the rest is not nothing. A
    remainder by `up` before the division is one by `top` after it."""

    def __init__(
        self, whole: Sequence[Atom], rest: Sequence[Atom], low: Ints, up: Ints, top: Ints, some: Bools
    ) -> None:
        self._whole, self._rest, self._some = whole, rest, some
        self._low, self._up, self._top = low, up, top
        self._endless = np.full_like(low, ENDLESS)
        quotient, self._is_one = _quotient(rest, low)
        self._quotient = replace(quotient, coef=np.where(some, quotient.coef, 0))

    def sum(self, scale: Ints) -> Iterator[Digit]:
        """Where no remainder is taken, or none wraps: the parts."""
        for atom in self._whole:
            yield from _one(atom, self._endless, scale)
        yield from _one(self._quotient, self._endless, np.where(self._is_one, scale, 0))
        yield from _sum(self._rest, self._low, self._endless, np.where(self._some & ~self._is_one, scale, 0))

    def remainder(self, scale: Ints) -> Iterator[Digit]:
        """Where the remainder wraps."""
        count = _count(self._whole)
        alone = (count == 0) & self._some
        yield from self._of_rest(np.where(alone, scale, 0))
        lone = (count == 1) & ~self._some
        for atom in self._whole:
            yield from _one(atom, self._top, np.where(lone, scale, 0))
        scale = np.where((count > 0) & (count + self._some > 1), scale, 0)
        simple = self._is_one | ~self._some
        yield from self._of_all(np.where(simple, scale, 0))
        yield from self._mixed(np.where(simple, 0, scale))

    def _of_rest(self, scale: Ints) -> Iterator[Digit]:
        """The remainder of the rest alone stays inside the division."""
        if not scale.any():
            return
        plain = self._is_one & (_count(self._rest) <= 2)
        yield from _one(self._quotient, self._top, np.where(plain, scale, 0))
        kept = np.where(plain, 0, scale)
        two = _two(self._rest, self._up)
        inner = _first_digit(self._rest, self._up, two & (kept != 0))
        yield from _sum(inner, self._low, np.where(two, ENDLESS, self._up), kept)

    def _of_all(self, scale: Ints) -> Iterator[Digit]:
        """The remainder of a sum of atoms."""
        if not scale.any():
            return
        atoms = [*self._whole, self._quotient]
        two = _two(atoms, self._top) & (scale != 0)
        for atom in _first_digit(atoms, self._top, two):
            yield from _one(atom, self._endless, np.where(two, scale, 0))
        yield from _sum(atoms, np.ones_like(scale), self._top, np.where(two, 0, scale))

    def _mixed(self, scale: Ints) -> Iterator[Digit]:
        """The remainder of a sum of atoms and of a division that stays one."""
        if not scale.any():
            return
        step = np.maximum(_leading(self._whole)[0].coef, 1)
        two = (_count(self._whole) == 1) & (self._top % step == 0) & (most(self._rest) // self._low < step)
        for atom in self._whole:
            yield from _one(atom, self._top, np.where(two, scale, 0))
        yield from _sum(self._rest, self._low, self._endless, np.where(two, scale, 0))
        scale = np.where(two, 0, scale)
        if scale.any():
            # The atoms of the rest count as if they stood beside the others: the remainder hides how far.
            atoms = (*self._whole, *self._rest)
            yield Digit(atoms, np.zeros_like(scale), np.ones_like(scale), self._top, scale)


def _one(atom: Atom, up: Ints, scale: Ints) -> Iterator[Digit]:
    """The remainder of one atom, where it is in some row."""
    if (scale * atom.coef).any():
        yield _single(atom, np.ones_like(scale), up, scale)


def _sum(atoms: Sequence[Atom], low: Ints, up: Ints, scale: Ints) -> Iterator[Digit]:
    """A digit of a sum, where it is in some row."""
    if scale.any():
        yield _opaque(atoms, np.zeros_like(scale), low, up, scale)


def _count(atoms: Sequence[Atom]) -> Ints:
    """int64[m], how many atoms there are."""
    return np.asarray(np.sum([atom.coef > 0 for atom in atoms], axis=0, dtype=np.int64))


def _two(atoms: Sequence[Atom], up: Ints) -> Bools:
    """Whether the remainder of a sum of two is that of the first, and the second as it is."""
    first, later = _leading(atoms)
    step = np.maximum(first.coef, 1)
    return np.asarray((_count(atoms) == 2) & (up < ENDLESS) & (up % step == 0) & (later < step))


def _first_digit(atoms: Sequence[Atom], up: Ints, where: Bools) -> list[Atom]:
    """The atoms with the remainder taken of the first alone, in the rows `where`."""
    found = []
    for atom in atoms:
        here = where & (atom.coef > 0)
        where = where & ~here
        end = np.minimum(atom.up, atom.low * (up // np.maximum(atom.coef, 1)))
        found.append(replace(atom, up=np.where(here & (end < atom.extent), end, atom.up)))
    return found


def _opaque(atoms: Sequence[Atom], const: Ints, low: Ints, up: Ints, scale: Ints) -> Digit:
    """A sum that stays a sum inside its digit."""
    ends = up < ENDLESS
    kept = [replace(atom, coef=np.where(ends & (atom.coef % up == 0), 0, atom.coef)) for atom in atoms]
    last = const + most(kept)
    up = np.where(last < up, ENDLESS, up)
    scale = np.where(((last < low) & (const >= 0)) | (up <= low), 0, scale)
    return Digit(tuple(kept), const, low, up, scale)


def most(atoms: Sequence[Atom]) -> Ints:
    """The largest value of the sum."""
    return np.asarray(sum(atom.coef * (turns(atom) - 1) for atom in atoms))


def _leading(atoms: Sequence[Atom]) -> tuple[Atom, Ints]:
    """The outermost atom that is there, by row, and the largest value of the others' sum."""
    first, later = atoms[-1], np.zeros_like(atoms[-1].coef)
    inner = first.coef * (turns(first) - 1)
    for atom in reversed(atoms[:-1]):
        there = atom.coef > 0
        later = np.where(there, inner, later)
        inner = inner + atom.coef * (turns(atom) - 1)
        first = Atom(*(np.where(there, a, b) for a, b in zip(_fields(atom), _fields(first), strict=True)))
    return first, later


def _fields(atom: Atom) -> tuple[Ints, ...]:
    return atom.level, atom.coef, atom.extent, atom.low, atom.up


def _quotient(atoms: Sequence[Atom], low: Ints) -> tuple[Atom, Bools]:
    """The sum divided by `low` as one atom, and the rows in which it is one: those in which the first atom
    moves in steps that divide `low` and the others stay inside one of them."""
    first, later = _leading(atoms)
    step = np.maximum(first.coef, 1)
    # The rule is one for sums of up to three.
    fits = (low % step == 0) & (later < step) & (_count(atoms) <= 3)
    whole = np.where(fits, low // step, 1)
    return replace(first, coef=(first.coef > 0).astype(np.int64), low=first.low * whole), np.asarray(fits)


def values(digit: Digit) -> Ints:
    """How many values a digit takes."""
    return np.asarray(np.minimum(most(digit.atoms) + 1, digit.up) // digit.low)


def turns(atom: Atom) -> Ints:
    """How many values the digit of an atom has."""
    return np.maximum(-(-np.minimum(atom.extent, atom.up) // atom.low), 1)


def _single(atom: Atom, low: Ints, up: Ints, scale: Ints) -> Digit:
    """The digit of one atom."""
    coef = np.maximum(atom.coef, 1)
    ends = up < ENDLESS
    gone = (atom.coef == 0) | (ends & (coef % up == 0))
    inner_up = np.where(ends, np.maximum(up // coef, 1), ENDLESS)
    folds = low % coef == 0
    inner_low = np.where(folds, low // coef, 1)
    step = np.where(folds, 1, coef // low)
    lower = atom.low * inner_low
    upper = np.where(inner_up < ENDLESS, np.minimum(atom.up, atom.low * inner_up), atom.up)
    gone = gone | (lower >= np.minimum(atom.extent, upper))
    upper = np.where(atom.extent <= upper, ENDLESS, upper)
    zero = np.zeros_like(scale)
    alone = replace(atom, coef=np.ones_like(coef), low=np.ones_like(coef), up=np.full_like(coef, ENDLESS))
    return Digit((alone,), zero, lower, upper, np.where(gone, 0, scale * step))


def joined(digits: list[Digit]) -> list[Digit]:
    """Neighbouring digits of one loop joined: `x // 6 * 2 + x % 6 // 3` is `x // 3`."""
    parts = [i for i, digit in enumerate(digits) if len(digit.atoms) == 1 and digit.at is None]
    single = [digits[i] for i in parts]
    scaled = [replace(digit.atoms[0], coef=digit.scale, low=digit.low, up=digit.up) for digit in single]
    for i, atom in zip(parts, joined_atoms(scaled), strict=True):
        digits[i] = replace(digits[i], scale=atom.coef, up=atom.up)
    return digits


def joined_atoms(atoms: list[Atom]) -> list[Atom]:
    """The same of the atoms of a sum."""
    for _ in range(2):
        for i, _ in enumerate(atoms):
            for j, _ in enumerate(atoms):
                left, right = atoms[i], atoms[j]
                meets = (left.level == right.level) & (left.low == right.up)
                if i == j or not meets.any():
                    continue
                meets &= (left.coef != 0) & (right.coef != 0)
                meets &= left.coef * right.low == right.coef * left.low
                atoms[i] = replace(left, coef=np.where(meets, 0, left.coef))
                atoms[j] = replace(right, up=np.where(meets, left.up, right.up))
    return atoms
