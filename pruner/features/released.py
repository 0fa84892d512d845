"""Reuse and cache lines as the released code of Pruner counts them (`feature_pam.cc`), slips included: what
its weights were trained on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.features.accesses import CACHE_LINE, Lines, Reuse, Trail, Visit
from pruner.search.nest import Buffer

Floats = NDArray[np.float64]


def reuse(visit: Visit, buffer: Buffer, trail: Trail) -> Reuse:
    """How the store uses the buffer again. A loop that does not move the access counts together with its
    neighbours outside that do not either, up to a loop in which the buffer was touched before; there the
    count is that of all loops from there outwards, and the distance in bytes is of what is read only."""
    loops, steps = visit.store.loops, visit.runs
    _, reach = visit.reach[buffer]
    m = steps.inner.shape[1]
    iterations, bytes_, count = np.ones(m), np.full(m, -1.0), np.ones(m)
    in_loop, in_sequence = np.zeros((2, m), dtype=bool)
    open_ = np.ones(m, dtype=bool)
    for level in reversed(range(len(loops))):
        extent, moves = steps.extents[level], reach.moves[level]
        here = open_ & steps.present[level]
        open_ &= ~(here & in_loop & moves)
        here &= open_
        farther = here & ~in_loop & moves
        still = here & ~moves
        np.multiply(iterations, extent, out=iterations, where=farther)
        np.copyto(bytes_, trail.bytes(loops[level]), where=farther)
        np.copyto(bytes_, trail.element_bytes(loops[level]), where=still & ~in_loop & (bytes_ < 0))
        np.multiply(count, extent, out=count, where=still)
        in_loop |= still
        before = trail.of(loops[level], buffer)
        if len(before) > 1:
            np.copyto(iterations, np.minimum.reduce(before) / extent, where=here)
            np.copyto(bytes_, trail.read_bytes(loops[level]) / extent, where=here)
            np.copyto(count, np.prod(steps.extents[: level + 1], axis=0), where=here)
            in_sequence |= here
            open_ &= ~here
        if not open_.any():
            break
    in_loop &= ~in_sequence
    used = in_loop | in_sequence
    return Reuse(
        in_loop.astype(np.float64),
        in_sequence.astype(np.float64),
        *(np.where(used, value, 0.0) for value in (iterations, bytes_, count)),
    )


def lines(visit: Visit, buffer: Buffer, trail: Trail) -> Lines:
    """The cache lines of an access. What is unique is what the first store of the buffer touched. Every loop
    inside the innermost one that moves the access counts as long as the innermost loop; how much lies
    together is told by the box of the last buffer, which the store writes."""
    touch, reach = visit.reach[buffer]
    *_, (_, last) = visit.reach.values()
    size, steps = touch.buffer.itemsize, visit.runs
    times = steps.inner[0]
    least, ratio, innermost, first, unique = np.zeros((5, len(times)))
    ratio += 1.0
    open_, inside, outside = np.ones((3, len(times)), dtype=bool)
    for level in reversed(range(len(steps.extents))):
        present = steps.present[level]
        np.copyto(first, steps.extents[level], where=present & inside)
        here = open_ & reach.moves[level] & present
        np.copyto(least, reach.strides[level], where=here)
        np.copyto(innermost, reach.strides[level], where=here & inside)
        open_ &= ~here
        np.multiply(ratio, first, out=ratio, where=open_ & present)
        inside &= ~present
    for level, loop in enumerate(visit.store.loops):
        here = outside & steps.present[level]
        np.copyto(unique, trail.of(loop, buffer)[0] * size, where=here)
        outside &= ~here
    together = np.full_like(times, size)
    for width, dim in zip(last.widths[: len(reach.shape)], reach.shape, strict=False):
        together = np.where(width == dim, size * width, together)
    return Lines(
        unique_bytes=np.where(outside, size, unique),
        lines=np.maximum(times / ratio * np.minimum(1.0, least * size / CACHE_LINE), 1.0),
        unique_lines=np.maximum(np.where(outside, size, unique) / np.minimum(CACHE_LINE, together), 1.0),
        stride=innermost,
    )
