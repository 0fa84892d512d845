"""Numbers that differ by row, as polynomials over decision columns.

While a trace is replayed no row is known yet, so extents and coefficients are `Polynomial`s in normal form:
equal values have equal keys, differences cancel, and the product of all factors of one tile is again the
int it came from. `pruner.search.symbolic.tape` evaluates them for a whole matrix of decisions.

`Polynomial` stands where `Extent` is expected, so that the code for index expressions serves both.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from pruner.search.nest import Extent

Monomial = tuple["Atom", ...]


class Atom:
    """A decision column, or an operation whose result is no polynomial. `tile` names the tile a factor
    belongs to: its atoms' product is an int. `bounds`: as `comparison.bounds` finds them when asked."""

    __slots__ = ("args", "bounds", "op", "table", "tile", "uid")

    def __init__(self, table: Symbols, op: str, args: tuple[Any, ...]) -> None:
        self.table = table
        self.op = op
        self.args = args
        self.uid = len(table.atoms)
        self.tile: Tile | None = None
        self.bounds: tuple[int | None, int | None] | None = None
        table.atoms.append(self)


class Tile:
    """The factors of one tile and their product."""

    __slots__ = ("atoms", "extent")

    def __init__(self, atoms: tuple[Atom, ...], extent: int) -> None:
        self.atoms = atoms
        self.extent = extent


class Polynomial:
    """Monomials with integer coefficients; never a plain number (that is an int)."""

    __slots__ = ("_key", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._key: frozenset[tuple[Monomial, int]] | None = None

    @property
    def key(self) -> frozenset[tuple[Monomial, int]]:
        """Equal for equal values."""
        if self._key is None:
            self._key = frozenset(self.terms.items())
        return self._key

    @property
    def table(self) -> Symbols:
        return next(mono[0].table for mono in self.terms if mono)

    def __add__(self, other: Any) -> Any:
        terms = dict(self.terms)
        for mono, c in _terms(other).items():
            terms[mono] = terms.get(mono, 0) + c
        return _make(terms)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return self + other * -1

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int):
            return _make({mono: c * other for mono, c in self.terms.items()})
        terms: dict[Monomial, int] = {}
        for a, x in self.terms.items():
            for b, y in _terms(other).items():
                mono, factor = _join(a, b)
                terms[mono] = terms.get(mono, 0) + x * y * factor
        return _make(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        quotient, rest = _divided(self, other)
        if isinstance(rest, int) and rest in (0, -1):  # divisors are at least 1
            return quotient + rest
        return quotient + self.table.operation("floordiv", rest, other)

    def __rfloordiv__(self, other: Any) -> Any:
        if other in (0, -1):
            return other
        return self.table.operation("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        _, rest = _divided(self, other)
        if isinstance(other, int):
            rest = _make({mono: c % other for mono, c in _terms(rest).items()})
            if isinstance(rest, int):
                return rest % other
        elif isinstance(rest, int) and rest in (0, -1):
            return other + rest if rest else 0
        return self.table.operation("mod", rest, other)

    def __rmod__(self, other: Any) -> Any:
        if other in (0, -1):
            return self - 1 if other else 0
        return self.table.operation("mod", other, self)


def _terms(value: Any) -> dict[Monomial, int]:
    return value.terms if isinstance(value, Polynomial) else {(): value}


def _make(terms: dict[Monomial, int]) -> Any:
    terms = {mono: c for mono, c in terms.items() if c}
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return Polynomial(terms)


def _divided(value: Polynomial, divisor: Any) -> tuple[Any, Any]:
    """(quotient, rest): the terms that are multiples of the divisor, divided, and the others."""
    terms = _terms(divisor)
    if len(terms) != 1:
        return 0, value
    [(by, c)] = terms.items()
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for mono, k in value.terms.items():
        left = list(mono)
        divides = k % c == 0
        for atom in by:
            if atom in left:
                left.remove(atom)
            else:
                divides = False
        if divides:
            quotient[tuple(left)] = k // c
        else:
            rest[mono] = k
    return _make(quotient), _make(rest)


def _join(a: Monomial, b: Monomial) -> tuple[Monomial, int]:
    """The product of two monomials, complete tiles replaced by their extent."""
    if not a or not b:
        return a or b, 1
    atoms = sorted(a + b, key=lambda atom: atom.uid)
    factor = 1
    for tile in {atom.tile for atom in atoms if atom.tile is not None}:
        if all(atom in atoms for atom in tile.atoms):
            for atom in tile.atoms:
                atoms.remove(atom)
            factor *= tile.extent
    return tuple(atoms), factor


class Symbols:
    """The atoms of one sketch."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self._known: dict[Any, Polynomial] = {}

    def tile(self, start: int, parts: int, extent: int) -> list[Extent]:
        """The factors of a tile in the columns from `start`."""
        if extent == 1:
            return [1] * parts
        if parts == 1:
            return [extent]
        factors = [self.column(start + i) for i in range(parts)]
        atoms = tuple(next(iter(cast(Polynomial, f).terms))[0] for f in factors)
        for atom in atoms:
            atom.tile = Tile(atoms, extent) if atom is atoms[0] else atoms[0].tile
        return factors

    def column(self, index: int) -> Extent:
        """A decision column."""
        return cast(Extent, self._atom("column", (index,), ("column", index)))

    def lookup(self, index: int, table: tuple[int, ...]) -> Extent:
        """`table[column]`."""
        if len(set(table)) == 1:
            return table[0]
        return cast(Extent, self._atom("lookup", (self.column(index), table), ("lookup", index, table)))

    def operation(self, op: str, *args: Any) -> Any:
        """`op` of polynomials and ints, at least one polynomial."""
        return self._atom(op, args, (op, *map(as_key, args)))

    def _atom(self, op: str, args: tuple[Any, ...], key: Any) -> Any:
        if key not in self._known:
            self._known[key] = Polynomial({(Atom(self, op, args),): 1})
        return self._known[key]


def as_key(value: Any) -> Hashable:
    """Equal for equal values, hashable."""
    return value.key if isinstance(value, Polynomial) else value


def equal(a: Any, b: Any) -> bool:
    """Whether two values are known to be the same in every row."""
    if isinstance(a, Polynomial) and isinstance(b, Polynomial):
        return a.key == b.key
    return isinstance(a, int) and isinstance(b, int) and a == b


def whole(value: Any) -> Any:
    """The value as one factor: products with a sum stay products."""
    if isinstance(value, Polynomial) and len(value.terms) > 1:
        return value.table.operation("whole", value)
    return value
