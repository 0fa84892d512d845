"""Index expressions as TVM's simplifier leaves them: sums of digits of loops, for many candidates at once.

A digit is `loop // low % up`. Where schedules fuse loops and split them again, an index is a sum of digits of
the fused loop, neighbours of which the simplifier joins. Which terms survive differs by row: a term that is
not there in a row has the scale 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pruner.features.digits import ENDLESS, Atom, Digit, joined, joined_atoms, most, split, values
from pruner.features.iterators import leaves_gap
from pruner.features.stores import Store
from pruner.search.nest import Extent, Floor, Linear, Loop, product

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Simplifier:
    """Simplifies the indices of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fixed: frozenset[Loop] = frozenset()
        self._m = store.extents.shape[1]
        self._zero = np.zeros(self._m, dtype=np.int64)
        self._one = np.ones(self._m, dtype=np.int64)
        self._endless = np.full(self._m, ENDLESS)
        self._rows: dict[int, Ints] = {0: self._zero, 1: self._one}
        self._whole: dict[Loop, Digit | None] = {}
        self._levels = {loop: level for level, loop in enumerate(store.loops)}
        self._known: dict[Loop, tuple[list[Atom], Ints, Ints]] = {}
        self._heads = self._head_levels()
        self._fetch = next((loop for loop, value in store.values.items() if _is_fetch(value)), None)
        self._length = self._tile = self._endless

    def digits(self, form: Linear, fixed: frozenset[Loop] = frozenset()) -> tuple[list[Digit], Ints]:
        """The sum's digits, and its constant, int64[m]. fixed: loops that stand still, as those around the
        allocation of a buffer do for its elements."""
        self._fixed = fixed
        found: list[Digit] = []
        for term, coefficient in form.terms.items():
            if isinstance(term, Loop) and (plain := self._plain(term)) is not None:
                if not (fixed and fixed & self._in_place(term)):
                    found.append(replace(plain, scale=plain.scale * coefficient))
                continue
            if fixed and isinstance(term, Floor):
                around = term.inner.loops()
                still = {loop for loop in around if fixed & self._in_place(loop)}
                if still and still != around:
                    found += self._left(term, still, self._row(coefficient))
                    continue
            atoms, low, up, const = self._flat(term)
            if self._fetch in ({term} if isinstance(term, Loop) else term.inner.loops()):
                up = np.where(up >= self._tile, ENDLESS, up)
                if self._outermost(term):
                    up = self._endless
                # A digit past the tile's end is nothing.
                coefficient = np.where(low >= self._length, 0, coefficient)
            if atoms:
                found += split(atoms, const, low, up, self._row(coefficient))
        return joined(found), self._row(form.const)

    def dividend(self, term: Floor) -> list[Atom]:
        """The atoms of the sum that a division divides."""
        return self._flat(term)[0]

    def _outermost(self, term: Loop | Floor) -> bool:
        """Whether a term of the fetched loop is the place in the tile's first dimension, of which fusing the
        tile's loops takes no remainder."""
        first = self._store.statement.writes[0].index[0]
        if isinstance(term, Floor) and (term.remainder or term.inner.loops() - term.inner.terms.keys()):
            return False
        return self._fetch in first.loops()

    def _left(self, term: Floor, still: set[Loop], scale: Ints) -> list[Digit]:
        """What is left of a digit once its value where the buffer begins is taken away: nothing of the digits
        of loops that stand still, but both where one of them cannot be told from the others."""
        fixed, self._fixed = self._fixed, frozenset()
        atoms, low, up, const = self._flat(term)
        whole = list(split(atoms, const, low, up, scale))
        self._fixed = fixed
        levels = np.stack([atom.level for loop in still for atom in self._loop_atoms(loop)])
        kept = []
        for digit in whole:
            stands = [(levels == atom.level).any(axis=0) | (atom.coef == 0) for atom in digit.atoms]
            moves = ~np.all(stands, axis=0)
            kept.append(replace(digit, scale=np.where(moves, digit.scale, 0)))
            if len(digit.atoms) > 1:
                parts = tuple(
                    [
                        replace(atom, coef=np.where(here, atom.coef, 0))
                        for atom, here in zip(digit.atoms, stands, strict=True)
                    ]
                )
                mixed = moves & (most(parts) > 0)
                kept.append(replace(digit, atoms=parts, scale=np.where(mixed, -digit.scale, 0)))
        return [digit for digit in kept if digit.scale.any()]

    def _loop_atoms(self, loop: Loop) -> list[Atom]:
        fixed, self._fixed = self._fixed, frozenset()
        atoms, _, _ = self._loop(loop)
        self._fixed = fixed
        return atoms

    def _plain(self, loop: Loop) -> Digit | None:
        """The loop's digit where it is one of the store's loops as it is, in all rows."""
        if loop not in self._whole:
            atoms, low, up = self._loop(loop)
            alone = len(atoms) == 1 and low is self._one and up is self._endless
            level = int(atoms[0].level[0]) if alone else -1
            self._whole[loop] = None
            if alone and (atoms[0].level == level).all():
                atom = replace(atoms[0], coef=self._one)
                self._whole[loop] = Digit((atom,), self._zero, low, up, atoms[0].coef, level)
        return self._whole[loop]

    def _row(self, value: Extent) -> Ints:
        if isinstance(value, np.ndarray) and value.ndim:
            return value
        number = int(value)
        if number not in self._rows:
            self._rows[number] = np.full(self._m, number)
        return self._rows[number]

    def _head_levels(self) -> Ints:
        """`depth x m`, the outermost level of the run of fused loops that a loop is in."""
        depth = len(self._store.loops)
        heads = np.repeat(np.arange(depth)[:, None], self._m, axis=1)
        for level in range(1, depth):
            heads[level] = np.where(self._store.joined[level], heads[level - 1], heads[level])
        return heads

    def _flat(self, term: Loop | Floor) -> tuple[list[Atom], Ints, Ints, Ints]:
        """A term as one digit of a sum of atoms: the atoms, low, up and the sum's constant."""
        if isinstance(term, Loop):
            return (*self._loop(term), self._zero)
        inner = term.inner
        divisor = self._row(term.divisor)
        if len(inner.terms) == 1 and np.all(np.equal(inner.const, 0)):
            [(part, coefficient)] = inner.terms.items()
            if np.all(np.equal(coefficient, 1)):
                atoms, low, up, const = self._flat(part)
                if term.remainder:
                    return atoms, low, np.minimum(up, low * divisor), const
                return atoms, low * divisor, up, const
        atoms, const = [], self._row(inner.const)
        for part, coefficient in inner.terms.items():
            parts, low, up, own = self._flat(part)
            for atom in parts:
                # A digit of a sum inside a sum counts as the sum of the digits.
                lower = atom.low * low
                upper = np.minimum(atom.up, np.where(up < ENDLESS, atom.low * up, ENDLESS))
                gone = lower >= np.minimum(atom.extent, upper)
                upper = np.where(atom.extent <= upper, ENDLESS, upper)
                step = np.where(gone, 0, atom.coef * coefficient)
                atoms.append(replace(atom, coef=step, low=lower, up=upper))
            const = const + own * coefficient
        atoms = joined_atoms(atoms)
        if term.remainder:
            return atoms, self._one, divisor, const
        return atoms, divisor, self._endless, const

    def _loop(self, loop: Loop) -> tuple[list[Atom], Ints, Ints]:
        """A loop of the statement, or one in its place, as a digit of loops of the store."""
        if loop not in self._known:
            fixed, self._fixed = self._fixed, frozenset()
            self._known[loop] = self._value(loop)
            self._fixed = fixed
        if self._fixed and self._fixed & self._in_place(loop):
            return [], self._one, self._endless
        return self._known[loop]

    def _in_place(self, loop: Loop) -> set[Loop]:
        """The loop that runs in place of one of the statement's."""
        value = self._store.values.get(loop)
        return {loop} if value is None else {term for term in value.terms if isinstance(term, Loop)}

    def _value(self, loop: Loop) -> tuple[list[Atom], Ints, Ints]:
        value = self._store.values.get(loop)
        if value is not None:
            [(term, _)] = value.terms.items() or [(None, 0)]
            if isinstance(term, Floor):
                return self._fetched(term)
            if isinstance(term, Loop):
                loop = term
        if loop not in self._levels:
            return [], self._one, self._endless
        level = self._levels[loop]
        extent = self._row(loop.extent)
        fused = self._store.joined
        if self._store.whole.any():
            return self._of_whole(loop)
        if not (fused[level].any() or (level + 1 < len(fused) and fused[level + 1].any())):
            return [self._atom(level, self._one, extent)], self._one, self._endless
        low, inside = self._one, np.ones(self._m, dtype=bool)
        for inner in range(level + 1, len(fused)):
            inside = inside & fused[inner]
            if not inside.any():
                break
            low = low * np.where(inside, self._row(self._store.loops[inner].extent), 1)
        total = low * extent
        outside = fused[level].copy()
        for outer in reversed(range(level)):
            if not outside.any():
                break
            total = total * np.where(outside, self._row(self._store.loops[outer].extent), 1)
            outside &= fused[outer]
        up = np.where(low * extent == total, ENDLESS, low * extent)
        # A loop of one turn stands still.
        atom = Atom(self._heads[level], (extent > 1).astype(np.int64), total, self._one, self._endless)
        return [atom], low, up

    def _atom(self, level: int, step: Ints, extent: Ints) -> Atom:
        """A loop times a step; one of a single turn is not there."""
        return Atom(self._row(level), np.where(extent > 1, step, 0), extent, self._one, self._endless)

    def _fetched(self, term: Floor) -> tuple[list[Atom], Ints, Ints]:
        """The fused loop of a cooperative fetch."""
        # A condition keeps a single turn inside the tile, and all of them where TVM can tell one element of
        # the source from another; it does not where a window slides over the tile.
        atoms = self._turn_atoms(term)
        self._length = length = self._row(term.divisor)
        once = most(atoms) < length
        inside = once | ~self._slides()
        self._tile = np.where(inside, length, ENDLESS)
        return atoms, self._one, np.where(inside, ENDLESS, length)

    def _turn_atoms(self, term: Floor) -> list[Atom]:
        """Turns, threads and lanes, in this order."""
        return [
            self._atom(self._levels[part], self._row(step), self._row(part.extent))
            for part, step in term.inner.terms.items()
            if isinstance(part, Loop)
        ]

    def _slides(self) -> Bools:
        """bool[m], whether TVM cannot tell one element of what is read from another, as where a window that
        slides over the input leaves gaps between the terms of a dimension."""
        found = np.zeros(self._m, dtype=bool)
        for read in self._store.statement.reads:
            for form in read.index:
                others = {
                    term: step
                    for term, step in form.terms.items()
                    if self._fetch not in ({term} if isinstance(term, Loop) else term.inner.loops())
                }
                if len(form.terms) < 2:
                    continue
                digits, _ = self.digits(Linear(others))
                terms = [(digit.scale, values(digit)) for digit in digits]
                terms += [
                    (self._row(step), self._tile_part(term))
                    for term, step in form.terms.items()
                    if term not in others
                ]
                found |= leaves_gap(*(np.stack(rows) for rows in zip(*terms, strict=True)))
        return found

    def _tile_part(self, term: Loop | Floor) -> Ints:
        """int64[m], how many values a term of the fetched loop takes."""
        if isinstance(term, Loop):
            return self._row(term.extent)
        low, high = term.range(term.inner.loops())
        return self._row(high) - self._row(low) + 1

    def _of_whole(self, loop: Loop) -> tuple[list[Atom], Ints, Ints]:
        """A loop of a statement whose loops are all one, split into chunks and lanes."""
        loops = self._store.loops[:-1]
        level = self._levels[loop]
        low = self._row(product(inner.extent for inner in loops[level + 1 :]))
        total = self._row(product(every.extent for every in loops))
        extent = self._row(loop.extent)
        whole = self._store.whole
        lanes = self._store.extents[-1].astype(np.int64)
        chunks = np.where(whole, self._store.extents[0], 1).astype(np.int64)
        # A loop of one turn stands still.
        turns = (extent > 1).astype(np.int64)
        outer = Atom(self._zero, np.where(whole, lanes, 0) * turns, chunks, self._one, self._endless)
        inner_level = np.where(whole, len(loops), level)
        inner = Atom(inner_level, turns, np.where(whole, lanes, extent), self._one, self._endless)
        low = np.where(whole, low, 1)
        up = np.where(whole & (low * extent != total), low * extent, ENDLESS)
        return [outer, inner], low, up


def _is_fetch(value: Linear) -> bool:
    return any(isinstance(term, Floor) for term in value.terms)
