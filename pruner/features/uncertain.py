"""Candidates of which the decisions do not tell all of TVM's numbers.

The stage of a grouped convolution holds the group that a tile reads, `fused % e // d`. Where the fused loop
does not move it by whole groups, TVM may be unable to tell where the stage begins, and then allocates it for
all groups. Whether it can is up to its simplifier, so that such candidates are read from their programs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pruner.features.stores import Lowered, Store
from pruner.search.nest import Floor

Bools = NDArray[np.bool_]


def uncertain(lowered: Lowered) -> Bools:
    """bool[m], whether some store writes an intermediate buffer at a division of a loop that is fused with
    others, stands around the buffer's allocation, and moves the dividend by other steps than the divisor's
    multiples."""
    found = np.zeros(lowered.stores[0].extents.shape[1], dtype=bool)
    for store in lowered.stores:
        fused = _fused(store)
        for dimension, term in _divisions(store):
            memory = lowered.memories.get(store.statement.writes[0].buffer)
            for loop in term.inner.loops() & memory.fixed_in[dimension] if memory else ():
                whole = np.remainder(term.inner.terms.get(loop, 0), term.divisor) == 0
                found |= fused[store.loops.index(loop)] & ~np.asarray(whole)
    return found


def _divisions(store: Store) -> Iterator[tuple[int, Floor]]:
    """The divisions in the index that is written, with their dimensions."""
    for dimension, form in enumerate(store.statement.writes[0].index):
        for term in form.terms:
            if isinstance(term, Floor) and not term.remainder:
                yield dimension, term


def _fused(store: Store) -> Bools:
    """`depth x m`, whether the loop is fused with one beside it."""
    fused = store.joined | store.whole
    fused[:-1] |= store.joined[1:]
    return fused
