"""The numbers of a buffer access as TVM's per-store extractor defines them (per_store_feature.cc)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.features.stores import Lowered, Store, Touch
from pruner.features.touched import Reached, Runs, reached, runs
from pruner.search.nest import Buffer, Loop

Floats = NDArray[np.float64]

CACHE_LINE = 64


@dataclass(frozen=True, eq=False)
class Reuse:
    """How a buffer is used again, float64[m] each.

    in_loop: the next loop outwards does not move the access. in_sequence: another store of that loop touches
    the buffer. Where neither is 1 it is not used again. iterations, bytes: how far apart two uses are. count:
    how often it is used again.
    """

    in_loop: Floats
    in_sequence: Floats
    iterations: Floats
    bytes: Floats
    count: Floats


@dataclass(frozen=True, eq=False)
class Lines:
    """float64[m] each: bytes of different elements, cache lines that all accesses touch and different ones
    of those, and elements from one turn of the innermost loop to the next."""

    unique_bytes: Floats
    lines: Floats
    unique_lines: Floats
    stride: Floats


@dataclass(frozen=True, eq=False)
class Visit:
    """What one store touches when it is visited. reach: by buffer, written ones last."""

    store: Store
    runs: Runs
    reach: dict[Buffer, tuple[Touch, Reached]]


class Trail:
    """What the stores visited so far have touched under each loop; a store that comes later finds it."""

    def __init__(self, m: int) -> None:
        self._m = m
        self._touched: dict[Loop, list[tuple[Touch, Floats]]] = {}

    def add(self, visit: Visit) -> None:
        """A store is visited."""
        for level, loop in enumerate(visit.store.loops):
            under = self._touched.setdefault(loop, [])
            under.extend((touch, reach.elements[level]) for touch, reach in visit.reach.values())

    def of(self, loop: Loop, buffer: Buffer) -> list[Floats]:
        """Elements of the buffer by store, float64[m] each."""
        return [elements for touch, elements in self._touched[loop] if touch.buffer is buffer]

    def bytes(self, loop: Loop, *, read_only: bool = False, one_each: bool = False) -> Floats:
        """float64[m], bytes that all stores touch. read_only: of buffers that the store only reads. one_each:
        one element of each instead."""
        sizes = np.zeros(self._m)
        for touch, elements in self._touched[loop]:
            if not (read_only and touch.written):
                sizes = sizes + (1.0 if one_each else elements) * touch.buffer.itemsize
        return sizes


def visits(lowered: Lowered, *, compacted: bool) -> Iterator[Visit]:
    """The stores in program order. compacted: intermediate buffers are shrunk to what is alive at once."""
    for store in lowered.stores:
        reach = {
            touch.buffer: (
                touch,
                reached(store, touch, lowered.memories.get(touch.buffer) if compacted else None),
            )
            for touch in store.touches
        }
        yield Visit(store, runs(store), reach)


def reuse(visit: Visit, buffer: Buffer, trail: Trail) -> Reuse:
    """How the store uses the buffer again: at the innermost loop that does not move the access, or that other
    stores share in which the buffer was touched before. The store itself is in the trail."""
    loops, steps = visit.store.loops, visit.runs
    _, reach = visit.reach[buffer]
    found = [np.zeros(steps.inner.shape[1]) for _ in range(5)]
    # Under the loop next inside: of the innermost loop, one element of every buffer.
    inner = np.sum(
        [np.full_like(found[0], touch.buffer.itemsize) for touch, _ in visit.reach.values()], axis=0
    )
    open_ = np.ones(len(inner), dtype=bool)
    for level in reversed(range(len(loops))):
        extent, moves = steps.extents[level], reach.moves[level]
        here = open_ & steps.present[level]
        under = trail.bytes(loops[level])
        still = here & ~moves
        _put(found, still, (1.0, 0.0, steps.inner[level + 1], inner, extent))
        before = trail.of(loops[level], buffer)
        if len(before) > 1:
            again = here & moves
            nearest = np.minimum.reduce(before)
            _put(found, again, (0.0, 1.0, nearest / extent, under / extent, len(before) - 1.0))
            open_ &= ~again
        open_ &= ~still
        inner = np.where(steps.present[level], under, inner)
        if not open_.any():
            break
    return Reuse(*found)


def _put(found: list[Floats], where: NDArray[np.bool_], values: Iterable[Floats | float]) -> None:
    for column, value in zip(found, values, strict=True):
        np.copyto(column, value, where=where)


def lines(visit: Visit, buffer: Buffer) -> Lines:
    """The cache lines of an access."""
    touch, reach = visit.reach[buffer]
    size, steps = touch.buffer.itemsize, visit.runs
    times = steps.inner[0]
    least, still, innermost = np.zeros_like(times), times.copy(), np.zeros_like(times)
    open_, inside = np.ones((2, len(times)), dtype=bool)
    for level in reversed(range(len(steps.extents))):
        here = open_ & reach.moves[level] & steps.present[level]
        np.copyto(least, reach.strides[level], where=here)
        np.copyto(still, steps.inner[level + 1], where=here)
        np.copyto(innermost, reach.strides[level], where=here & inside)
        open_ &= ~here
        inside &= ~steps.present[level]
    together = np.ones_like(times)
    for width, dim in zip(reach.widths, reach.shape, strict=True):
        together = np.where(width == dim, dim * size, together)
    unique = reach.elements[0] * size
    return Lines(
        unique_bytes=unique,
        lines=np.maximum(times / still * np.minimum(1.0, least * size / CACHE_LINE), 1.0),
        unique_lines=np.maximum(unique / np.minimum(CACHE_LINE, together), 1.0),
        stride=innermost,
    )
