"""Index expressions as TVM's simplifier leaves them: sums of digits of loops, for many candidates at once.

A digit is `loop // low % up`. Where schedules fuse loops and split them again, an index is a sum of digits of
the fused loop, neighbours of which the simplifier joins. Which terms survive differs by row: a term that is
not there in a row has the scale 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    atom alone has the coefficient, low and up of its digit."""

    atoms: tuple[Atom, ...]
    const: Ints
    low: Ints
    up: Ints
    scale: Ints


class Simplifier:
    """Simplifies the indices of one store.

    Args:
        fixed: loops that stand still, as those around the allocation of a buffer do for its elements.
    """

    def __init__(self, store: Store, fixed: Iterable[Loop]) -> None:
        self._store = store
        self._fixed = frozenset(fixed)
        self._m = store.extents.shape[1]
        self._zero = np.zeros(self._m, dtype=np.int64)
        self._one = np.ones(self._m, dtype=np.int64)
        self._endless = np.full(self._m, ENDLESS)
        self._levels = {loop: level for level, loop in enumerate(store.loops)}
        self._known: dict[Loop, tuple[list[Atom], Ints, Ints]] = {}
        self._heads = self._head_levels()

    def digits(self, form: Linear) -> tuple[list[Digit], Ints]:
        """The sum's digits, and its constant, int64[m]."""
        found: list[Digit] = []
        for term, coefficient in form.terms.items():
            atoms, low, up, const = self._flat(term)
            found += self._split(atoms, const, low, up, self._row(coefficient))
        return _joined(found), self._row(form.const)

    def _row(self, value: Extent) -> Ints:
        return np.broadcast_to(np.asarray(value, dtype=np.int64), self._m)

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
                atoms.append(
                    replace(
                        atom,
                        coef=atom.coef * coefficient,
                        low=atom.low * low,
                        up=np.minimum(atom.up, np.where(up < ENDLESS, atom.low * up, ENDLESS)),
                    )
                )
            const = const + own * coefficient
        if term.remainder:
            return atoms, self._one, divisor, const
        return atoms, divisor, self._endless, const

    def _loop(self, loop: Loop) -> tuple[list[Atom], Ints, Ints]:
        """A loop of the statement, or one in its place, as a digit of loops of the store."""
        if loop not in self._known:
            self._known[loop] = self._value(loop)
        return self._known[loop]

    def _value(self, loop: Loop) -> tuple[list[Atom], Ints, Ints]:
        value = self._store.values.get(loop)
        if value is not None:
            [(term, _)] = value.terms.items() or [(None, 0)]
            if isinstance(term, Floor):
                return self._fetched(term)
            if isinstance(term, Loop):
                loop = term
        if loop in self._fixed or loop not in self._levels:
            return [], self._one, self._endless
        level = self._levels[loop]
        extent = self._row(loop.extent)
        joined = self._store.joined
        if self._store.whole.any():
            return self._of_whole(loop)
        if not (joined[level].any() or (level + 1 < len(joined) and joined[level + 1].any())):
            atom = Atom(self._row(level), self._one, extent, self._one, self._endless)
            return [atom], self._one, self._endless
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

    def _fetched(self, term: Floor) -> tuple[list[Atom], Ints, Ints]:
        """The fused loop of a cooperative fetch."""
        atoms = []
        for part, coefficient in sorted(term.inner.terms.items(), key=lambda item: -np.max(item[1])):
            assert isinstance(part, Loop)
            atoms.append(
                Atom(
                    self._row(self._levels[part]),
                    self._row(coefficient),
                    self._row(part.extent),
                    self._one,
                    self._endless,
                )
            )
        length = self._row(term.divisor)
        most = sum((atom.coef * (atom.extent - 1) for atom in atoms), start=self._zero)
        # A condition keeps a single turn inside the tile, which the simplifier sees.
        turn = next(atom for atom in atoms if self._store.loops[int(atom.level[0])].name == "turn")
        return atoms, self._one, np.where((most < length) | (turn.extent == 1), ENDLESS, length)

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

    def _split(
        self, atoms: Sequence[Atom], const: Ints, low: Ints, up: Ints, scale: Ints
    ) -> Iterator[Digit]:
        """The digits that `scale * (sum of atoms // low % (up // low))` becomes; atoms from outside in."""
        if not atoms:
            yield Digit((), const, low, up, scale)
            return
        if not const.any():
            if len(atoms) == 1:
                yield _single(atoms[0], low, up, scale)
                return
            *outer, inner = atoms
            step = self._gcd([atom.coef for atom in outer])
            none = step == 0
            step = np.maximum(step, 1)
            ends = up < ENDLESS
            alone = none | (ends & (step % up == 0))
            fits = (inner.coef * (inner.extent - 1) < step) & (~ends | (up % step == 0)) & ~alone
            blocks = fits & (low % step == 0)
            both = fits & ~blocks & (step % low == 0)
            rest = ~(alone | blocks | both)
            mine = np.where(alone | both, scale, 0)
            if mine.any():
                own_up = np.where(both, ENDLESS, up)
                yield from self._split([inner], const, low, own_up, mine)
            theirs = np.where(blocks, scale, np.where(both, scale * (step // low), 0))
            if theirs.any():
                parts = [replace(atom, coef=atom.coef // step) for atom in outer]
                own_low = np.where(blocks, low // step, 1)
                own_up = np.where(ends, up // step, ENDLESS)
                yield from self._split(parts, const, np.maximum(own_low, 1), np.maximum(own_up, 1), theirs)
            scale = np.where(rest, scale, 0)
        if scale.any():
            yield self._opaque(atoms, const, low, up, scale)

    def _opaque(self, atoms: Sequence[Atom], const: Ints, low: Ints, up: Ints, scale: Ints) -> Digit:
        """A sum that stays a sum inside its digit."""
        ends = up < ENDLESS
        kept = [replace(atom, coef=np.where(ends & (atom.coef % up == 0), 0, atom.coef)) for atom in atoms]
        most = sum((atom.coef * (_turns(atom) - 1) for atom in kept), start=const)
        up = np.where(most < up, ENDLESS, up)
        scale = np.where((most < low) & (const >= 0), 0, scale)
        return Digit(tuple(kept), const, low, up, scale)

    def _gcd(self, numbers: Sequence[Ints]) -> Ints:
        found = self._zero
        for number in numbers:
            found = np.gcd(found, number)
        return found


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
    single = [len(digit.atoms) == 1 for digit in digits]
    for _ in range(2):
        for i in range(len(digits)):
            for j in range(len(digits)):
                if i == j or not (single[i] and single[j]):
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
