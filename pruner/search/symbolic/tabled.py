"""Numbers of the decisions as numbers of drawn tilings: what several factors of one tile make together is
looked up instead of worked out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.search.symbolic.polynomial import Atom, Monomial, Polynomial, Symbols

Ints = NDArray[np.int64]


class Tabled:
    """Rewrites values of the decision columns as values of other columns: a tile's first one holds the number
    of its tiling, categories stay as they are.

    Args:
        tilings: by the first column of a tile, all its tilings, `m x parts`.

    The number m stands for a tiling that is not drawn yet: each product of its factors is the least that any
    tiling has.
    """

    def __init__(self, tilings: Mapping[int, Ints]) -> None:
        self._symbols = Symbols()
        self._tilings = tilings
        self._start = {start + i: start for start, table in tilings.items() for i in range(table.shape[1])}
        # Parts of monomials that are rewritten already.
        self._known: dict[Monomial, Any] = {}

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, Polynomial):
            return value
        total: Any = 0
        for mono, c in value.terms.items():
            product: Any = c
            for start, atoms in groupby(mono, self._tile):
                part = tuple(atoms)
                if part not in self._known:
                    self._known[part] = self._factors(part) if start is None else self._product(start, part)
                product = product * self._known[part]
            total = total + product
        return total

    def _tile(self, atom: Atom) -> int | None:
        return self._start.get(atom.args[0]) if atom.op == "column" else None

    def _product(self, start: int, factors: Monomial) -> Any:
        """What factors of one tile make, by the number of the tiling."""
        table = self._tilings[start]
        made = np.prod([table[:, factor.args[0] - start] for factor in factors], axis=0)
        return self._symbols.lookup(start, (*made.tolist(), int(made.min())))

    def _factors(self, atoms: Monomial) -> Any:
        product: Any = 1
        for atom in atoms:
            if atom.op == "column":
                product = product * self._symbols.column(atom.args[0])
            else:
                product = product * self._symbols.operation(atom.op, *map(self, atom.args))
        return product
