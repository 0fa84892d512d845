"""Candidates of which the decisions do not tell all of TVM's numbers.

The stage of a grouped convolution holds the group that a tile reads, `fused % e * c // d`. TVM pads the
dividend to whole groups to find out where the stage begins, and what it then has, `(fused % e - fused % 4) //
4`, it does not know to be `fused % e // 4`: it allocates the stage for all groups that it might be. Whether
that happens is up to its simplifier, so that such candidates are read from their programs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pruner.features.digits import ENDLESS, turns
from pruner.features.simplified import Simplifier
from pruner.features.stores import Lowered, Store
from pruner.search.nest import Floor

Bools = NDArray[np.bool_]


def uncertain(lowered: Lowered) -> Bools:
    """bool[m], whether some store writes an intermediate buffer at a division `c * digit // d` of a digit of
    loops that TVM fuses and that stand around the buffer's allocation, where the digit reaches more than
    one group in steps that are no whole groups, nor, where it stands alone, single elements."""
    found = np.zeros(lowered.stores[0].extents.shape[1], dtype=bool)
    for store in lowered.stores:
        for dimension, term in _divisions(store):
            memory = lowered.memories.get(store.statement.writes[0].buffer)
            fixed = term.inner.loops() & memory.fixed_in[dimension] if memory else set()
            if not fixed:
                continue
            fused = (store.joined | store.whole).any(axis=0)
            atoms = Simplifier(store).dividend(term)
            several = np.sum([atom.coef != 0 for atom in atoms], axis=0) > 1
            for atom in atoms:
                digit = (atom.low > 1) | (atom.up < ENDLESS)
                crosses = atom.coef * turns(atom) > term.divisor
                parts = ((atom.coef != 1) | several) & (atom.coef % term.divisor != 0)
                found |= fused & digit & crosses & parts
    return found


def _divisions(store: Store) -> Iterator[tuple[int, Floor]]:
    """The divisions in the index that is written, with their dimensions."""
    for dimension, form in enumerate(store.statement.writes[0].index):
        for term in form.terms:
            if isinstance(term, Floor) and not term.remainder:
                yield dimension, term
