"""Index expressions as TVM's simplifier leaves them: sums of digits of loops, for many candidates at once.

A digit is `loop // low % up`. Where schedules fuse loops and split them again, an index is a sum of digits of
the fused loop, neighbours of which the simplifier joins. Which terms survive differs by row: a term that is
not there in a row has the scale 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pruner.features.stores import Store
from pruner.search.nest import Extent, Floor, Linear, Loop, product

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
    """`scale * ((const + sum of atoms) // low % (up // low))`, int64[m] each; scale 0 where it is not there. One
    atom alone has the coefficient, low and up of its digit. at: the level of a digit that is one whole loop in
    all rows, None of others."""

    atoms: tuple[Atom, ...]
    const: Ints
    low: Ints
    up: Ints
    scale: Ints
    at: int | None = None


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
            atoms, low, up, const = self._flat(term)
            if self._fetch in ({term} if isinstance(term, Loop) else term.inner.loops()):
                up = np.where(up >= self._tile, ENDLESS, up)
                # A digit past the tile's end is nothing.
                coefficient = np.where(low >= self._length, 0, coefficient)
            if atoms:
                found += self._split(atoms, const, low, up, self._row(coefficient))
        return _joined(found), self._row(form.const)

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
        joined = self._store.joined
        if self._store.whole.any():
            return self._of_whole(loop)
        if not (joined[level].any() or (level + 1 < len(joined) and joined[level + 1].any())):
            return [self._atom(level, self._one, extent)], self._one, self._endless
        low, inside = self._one, np.ones(self._m, dtype=bool)
        for inner in range(level + 1, len(joined)):
            inside = inside & joined[inner]
            if not inside.any():
                break
            low = low * np.where(inside, self._row(self._store.loops[inner].extent), 1)
        total = low * extent
        outside = joined[level].copy()
        for outer in reversed(range(level)):
            if not outside.any():
                break
            total = total * np.where(outside, self._row(self._store.loops[outer].extent), 1)
            outside &= joined[outer]
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
        inside = (_most(atoms) < length) | ~self._slides()
        self._tile = np.where(inside, length, ENDLESS)
        return atoms, self._one, np.where(inside, ENDLESS, length)

    def _turn_atoms(self, term: Floor) -> list[Atom]:
        """Turns, threads and lanes, in this order."""
        order = ("turn", "", "lane")
        parts = sorted(
            ((part, step) for part, step in term.inner.terms.items() if isinstance(part, Loop)),
            key=lambda item: order.index(item[0].name if item[0].name in order else ""),
        )
        return [
            self._atom(self._levels[part], self._row(step), self._row(part.extent)) for part, step in parts
        ]

    def _slides(self) -> Bools:
        """bool[m], whether TVM cannot tell one element of what is read from another, dimension by dimension: its
        detection of iterators (iter_affine_map.cc) takes a sum's terms from the smallest scale up, each at the
        scale that the last one ends at, or else, of a sum with a term of scale 1, at the closest smaller one, and
        may find none."""
        found = np.zeros(self._m, dtype=bool)
        for read in self._store.statement.reads:
            for form in read.index:
                others = {
                    term: step
                    for term, step in form.terms.items()
                    if self._fetch not in ({term} if isinstance(term, Loop) else term.inner.loops())
                }
                if len(others) < 2:
                    continue
                digits, _ = self.digits(Linear(others))
                terms = [(digit.scale, _values(digit)) for digit in digits]
                terms += [
                    (self._row(step), self._tile_part(term))
                    for term, step in form.terms.items()
                    if term not in others
                ]
                found |= _gap(*(np.stack(rows) for rows in zip(*terms, strict=True)))
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
        outer = Atom(self._zero, np.where(whole, lanes, 0), chunks, self._one, self._endless)
        inner_level = np.where(whole, len(loops), level)
        inner = Atom(inner_level, self._one, np.where(whole, lanes, extent), self._one, self._endless)
        low = np.where(whole, low, 1)
        up = np.where(whole & (low * extent != total), low * extent, ENDLESS)
        return [outer, inner], low, up

    def _split(self, atoms: Sequence[Atom], const: Ints, low: Ints, up: Ints, scale: Ints) -> Iterator[Digit]:
        """The digits that `scale * (sum of atoms // low % (up // low))` becomes; atoms from outside in."""
        if const.any():
            yield self._opaque(atoms, const, low, up, scale)
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
        most = _most(rest)
        some = most >= low
        one, is_one = _quotient(rest, low)
        one = replace(one, coef=np.where(some, one.coef, 0))
        free = ~ends | (_most(whole) + most // low < top)
        # Nothing wraps: a sum of its parts.
        for atom in whole:
            yield from self._if(_single, atom, self._one, self._endless, np.where(free, scale, 0))
        single = free & some & is_one
        yield from self._if(_single, one, self._one, self._endless, np.where(single, scale, 0))
        yield from self._sum(rest, low, self._endless, np.where(free & some & ~is_one, scale, 0))
        scale = np.where(free, 0, scale)
        if not scale.any():
            return
        count = sum(((atom.coef > 0).astype(np.int64) for atom in whole), start=self._zero)
        # The rest alone keeps its remainder inside the division.
        alone = (count == 0) & some
        terms = sum(((atom.coef > 0).astype(np.int64) for atom in rest), start=self._zero)
        plain = alone & is_one & (terms <= 2)
        yield from self._if(_single, one, self._one, top, np.where(plain, scale, 0))
        inner = self._first_digit(rest, up, alone & ~plain)
        wraps = np.where(self._two(rest, up), ENDLESS, up)
        yield from self._sum(inner, low, wraps, np.where(alone & ~plain, scale, 0))
        # The remainder of a sum.
        several = (count > 0) & (count + some > 1)
        lone = (count == 1) & ~some
        for atom in whole:
            yield from self._if(_single, atom, self._one, top, np.where(lone, scale, 0))
        for args, where in (([*whole, one], several & (is_one | ~some)), (None, several & some & ~is_one)):
            if not where.any():
                continue
            if args is None:
                yield from self._mixed(whole, rest, low, top, np.where(where, scale, 0))
                continue
            two = self._two(args, top) & where
            for atom in self._first_digit(args, top, two):
                yield from self._if(_single, atom, self._one, self._endless, np.where(two, scale, 0))
            yield from self._sum(args, self._one, top, np.where(where & ~two, scale, 0))

    def _mixed(
        self, whole: Sequence[Atom], rest: Sequence[Atom], low: Ints, top: Ints, scale: Ints
    ) -> Iterator[Digit]:
        """`scale * ((whole + rest // low) % top)` where the division stays a division of a sum."""
        first, later = _leading(whole)
        count = sum(((atom.coef > 0).astype(np.int64) for atom in whole), start=self._zero)
        step = np.maximum(first.coef, 1)
        two = (count == 1) & (top % step == 0) & (_most(rest) // low < step)
        for atom in whole:
            yield from self._if(_single, atom, self._one, top, np.where(two, scale, 0))
        yield from self._sum(rest, low, self._endless, np.where(two, scale, 0))
        scale = np.where(two, 0, scale)
        if scale.any():
            # The atoms of the rest count as if they stood beside the others: the remainder hides how far.
            yield Digit((*whole, *rest), self._zero, self._one, top, scale)

    def _if(
        self,
        make: Callable[[Atom, Ints, Ints, Ints], Digit],
        atom: Atom,
        low: Ints,
        up: Ints,
        scale: Ints,
    ) -> Iterator[Digit]:
        """The digit, where it is in some row."""
        if (scale * atom.coef).any():
            yield make(atom, low, up, scale)

    def _sum(self, atoms: Sequence[Atom], low: Ints, up: Ints, scale: Ints) -> Iterator[Digit]:
        if scale.any():
            yield self._opaque(atoms, self._zero, low, up, scale)

    def _two(self, atoms: Sequence[Atom], up: Ints) -> Bools:
        """Whether the remainder of a sum of two is the remainder of the first and the second as it is."""
        first, later = _leading(atoms)
        count = sum(((atom.coef > 0).astype(np.int64) for atom in atoms), start=self._zero)
        step = np.maximum(first.coef, 1)
        return np.asarray((count == 2) & (up < ENDLESS) & (up % step == 0) & (later < step))

    def _first_digit(self, atoms: Sequence[Atom], up: Ints, where: Bools) -> list[Atom]:
        """The atoms with the remainder taken of the first alone, in the rows `where` that does."""
        open_ = where & self._two(atoms, up)
        found = []
        for atom in atoms:
            here = open_ & (atom.coef > 0)
            open_ = open_ & ~here
            end = np.minimum(atom.up, atom.low * (up // np.maximum(atom.coef, 1)))
            end = np.where(here & (end < atom.extent), end, atom.up)
            found.append(replace(atom, up=end))
        return found

    def _opaque(self, atoms: Sequence[Atom], const: Ints, low: Ints, up: Ints, scale: Ints) -> Digit:
        """A sum that stays a sum inside its digit."""
        ends = up < ENDLESS
        kept = [replace(atom, coef=np.where(ends & (atom.coef % up == 0), 0, atom.coef)) for atom in atoms]
        most = const + _most(kept)
        up = np.where(most < up, ENDLESS, up)
        scale = np.where(((most < low) & (const >= 0)) | (up <= low), 0, scale)
        return Digit(tuple(kept), const, low, up, scale)


def _most(atoms: Sequence[Atom]) -> Ints:
    """The largest value of the sum."""
    return np.asarray(sum(atom.coef * (_turns(atom) - 1) for atom in atoms))


def _leading(atoms: Sequence[Atom]) -> tuple[Atom, Ints]:
    """The outermost atom that is there, by row, and the largest value of the others' sum."""
    first, later = atoms[-1], np.zeros_like(atoms[-1].coef)
    inner = first.coef * (_turns(first) - 1)
    for atom in reversed(atoms[:-1]):
        there = atom.coef > 0
        later = np.where(there, inner, later)
        inner = inner + atom.coef * (_turns(atom) - 1)
        first = Atom(*(np.where(there, a, b) for a, b in zip(_fields(atom), _fields(first), strict=True)))
    return first, later


def _fields(atom: Atom) -> tuple[Ints, ...]:
    return atom.level, atom.coef, atom.extent, atom.low, atom.up


def _quotient(atoms: Sequence[Atom], low: Ints) -> tuple[Atom, Bools]:
    """The sum divided by `low` as one atom, and the rows in which it is: those in which the first atom moves in
    steps that divide `low` and the others stay inside one of them."""
    first, later = _leading(atoms)
    step = np.maximum(first.coef, 1)
    fits = (low % step == 0) & (later < step)
    whole = np.where(fits, low // step, 1)
    return replace(first, coef=(first.coef > 0).astype(np.int64), low=first.low * whole), np.asarray(fits)


def _values(digit: Digit) -> Ints:
    """How many values a digit takes."""
    return np.asarray(np.minimum(_most(digit.atoms) + 1, digit.up) // digit.low)


def _gap(scales: Ints, extents: Ints) -> Bools:
    """bool[m], whether terms, `k x m`, leave a gap when each starts where the last one ends, or before."""
    rows = np.arange(scales.shape[1])
    open_ = (scales > 0) & (extents > 1)
    unit = np.min(np.where(open_, scales, ENDLESS), axis=0) == 1
    found = np.zeros(len(rows), dtype=bool)
    end = np.zeros(len(rows), dtype=np.int64)
    for step in range(len(scales)):
        # The smallest first, then the one at the end, or the closest below it.
        left = np.where(open_, scales, ENDLESS)
        at = np.argmin(left, axis=0)
        if step:
            below = np.where(open_ & ((scales == end) | (unit & (scales < end))), scales, -1)
            at = np.argmax(below, axis=0)
            found |= open_.any(axis=0) & (below[at, rows] < 0)
        taken = open_[at, rows]
        end = np.where(taken, scales[at, rows] * extents[at, rows], end)
        open_[at, rows] = False
    return found


def _is_fetch(value: Linear) -> bool:
    return any(isinstance(term, Floor) for term in value.terms)


def _turns(atom: Atom) -> Ints:
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


def _joined(digits: list[Digit]) -> list[Digit]:
    """Neighbouring digits of one loop joined: `x // 6 * 2 + x % 6 // 3` is `x // 3`."""
    parts = [i for i, digit in enumerate(digits) if len(digit.atoms) == 1 and digit.at is None]
    for _ in range(2):
        for i in parts:
            for j in parts:
                if i == j:
                    continue
                left, right = digits[i], digits[j]
                meets = (left.atoms[0].level == right.atoms[0].level) & (left.low == right.up)
                if not meets.any():
                    continue
                meets &= (left.scale != 0) & (right.scale != 0)
                meets &= left.scale * right.low == right.scale * left.low
                digits[i] = replace(left, scale=np.where(meets, 0, left.scale))
                digits[j] = replace(right, up=np.where(meets, left.up, right.up))
    return digits
