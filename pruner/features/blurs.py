"""Stages of which TVM cannot tell where they begin, so that it allocates them for all places they may be at.

The stage of a grouped convolution holds the group that a tile reads, `fused % e // d`. TVM has two forms of
that, one from the stage's own statement and one from its reader, and takes the union of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.features.fused import Fused
from pruner.search.nest import Buffer, Extent, Floor, Loop, Statement, product


@dataclass(frozen=True, eq=False)
class Blur:
    """A dimension of which TVM cannot tell where it begins, in some rows. It is allocated `slack` elements
    longer, int64[m], 0 in the other rows, and moves with the loop by steps of `step`."""

    dimension: int
    loop: Loop
    step: Extent
    slack: NDArray[np.int64]


def blurs(
    buffer: Buffer,
    home: int,
    fixed_in: Sequence[frozenset[Loop]],
    around: Sequence[tuple[Statement, Fused]],
    m: int,
) -> tuple[Blur, ...]:
    """Those of a buffer that lives inside `home` loops, of which `fixed_in` move its dimensions; `around`
    holds the statements that may write it."""
    reduces = {loop for statement, _ in around for loop in statement.reduces}
    found = []
    for statement, fused in around:
        if fused.found is None or all(write.buffer is not buffer for write in statement.writes):
            continue
        # Inside a reduction TVM knows them.
        once = np.equal(product(loop.extent for loop in statement.loops[:home] if loop in reduces), 1)
        for dimension, term, step in _divisions(statement, buffer):
            for loop in term.inner.loops() & fixed_in[dimension]:
                high = term.range((loop,))[1]
                own = term.inner.terms.get(loop, 0)
                stays = fused.joined[statement.loops.index(loop)] & once & np.greater(high, 0)
                stays = stays & (np.remainder(own, term.divisor) != 0)
                if stays.any():
                    slack = np.broadcast_to(np.where(stays, step * (high + 1), 0), m)
                    found.append(Blur(dimension, loop, step, slack))
    return tuple(found)


def _divisions(statement: Statement, buffer: Buffer) -> Iterator[tuple[int, Floor, Extent]]:
    """The divisions in the indices with which the statement writes the buffer, with dimension and step."""
    for write in statement.writes:
        for dimension, form in enumerate(write.index):
            for term, step in form.terms.items():
                if write.buffer is buffer and isinstance(term, Floor) and not term.remainder:
                    yield dimension, term, step
