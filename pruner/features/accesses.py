"""The numbers of a buffer access as TVM's per-store extractor defines them (per_store_feature.cc)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pruner.features.stores import Lowered, Store, Touch
from pruner.features.touched import Reached, Runs, at, last, reached, runs
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

    @cached_property
    def bytes(self) -> Floats:
        """`depth x m`, bytes that the store touches while the loops from a level inwards run."""
        sizes = np.zeros_like(self.runs.extents)
        for touch, reach in self.reach.values():
            sizes += reach.elements[:-1] * touch.buffer.itemsize
        return sizes


class Trail:
    """What the stores visited so far have touched under each loop; a store that comes later finds it."""

    def __init__(self, m: int) -> None:
        self._m = m
        self._touched: dict[Loop, list[tuple[Touch, Floats]]] = {}
        self._elements: dict[tuple[Loop, Buffer], list[Floats]] = {}
        self._bytes: dict[Loop, Floats] = {}

    def add(self, visit: Visit) -> None:
        """A store is visited."""
        for level, (loop, touched) in enumerate(zip(visit.store.loops, visit.bytes, strict=True)):
            self._bytes[loop] = self._bytes[loop] + touched if loop in self._bytes else touched
            under = self._touched.setdefault(loop, [])
            for touch, reach in visit.reach.values():
                under.append((touch, reach.elements[level]))
                self._elements.setdefault((loop, touch.buffer), []).append(reach.elements[level])

    def of(self, loop: Loop, buffer: Buffer) -> list[Floats]:
        """Elements of the buffer by store, float64[m] each."""
        return self._elements[loop, buffer]

    def bytes(self, loop: Loop) -> Floats:
        """float64[m], bytes that all stores touch."""
        return self._bytes[loop]

    def read_bytes(self, loop: Loop) -> Floats:
        """float64[m], bytes that all stores touch of buffers that they only read."""
        sizes = np.zeros(self._m)
        for touch, elements in self._touched[loop]:
            if not touch.written:
                sizes = sizes + elements * touch.buffer.itemsize
        return sizes

    def element_bytes(self, loop: Loop) -> int:
        """Bytes of one element of each buffer that some store touches, once per store."""
        return sum([touch.buffer.itemsize for touch, _ in self._touched[loop]])


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
    before = [trail.of(loop, buffer) for loop in loops]
    shared = np.array([len(stores) > 1 for stores in before], dtype=bool)
    place = last(steps.present & (~reach.moves | shared[:, None]))
    rows = np.arange(len(place))
    in_loop, extent = at(~reach.moves, place), at(steps.extents, place)
    under = np.empty_like(steps.inner)
    # Inside the innermost loop it is one element of every buffer.
    under[-1] = sum([touch.buffer.itemsize for touch, _ in visit.reach.values()])
    for level, loop in enumerate(loops):
        under[level] = trail.bytes(loop)
    iterations = np.where(in_loop, steps.inner[place, rows], 0.0)
    bytes_ = np.where(in_loop, under[steps.inside[place, rows], rows], 0.0)
    count = np.where(in_loop, extent, 0.0)
    in_sequence = at(reach.moves, place)
    if in_sequence.any():
        nearest = np.array([np.minimum.reduce(stores) for stores in before])
        others = np.array([len(stores) - 1.0 for stores in before])
        np.divide(at(nearest, place), extent, out=iterations, where=in_sequence)
        np.divide(under[place - 1, rows], extent, out=bytes_, where=in_sequence)
        np.copyto(count, others[place - 1], where=in_sequence)
    return Reuse(in_loop.astype(np.float64), in_sequence.astype(np.float64), iterations, bytes_, count)


def lines(visit: Visit, buffer: Buffer) -> Lines:
    """The cache lines of an access."""
    touch, reach = visit.reach[buffer]
    size, steps = touch.buffer.itemsize, visit.runs
    times = steps.inner[0]
    place = last(reach.moves & steps.present)
    least = at(reach.strides, place)
    still = steps.inner[place, np.arange(len(place))]
    # What the innermost dimension that is touched as a whole holds lies together.
    whole = last(reach.widths == reach.shape)
    together = np.where(whole > 0, at(reach.shape, whole) * size, 1.0)
    unique = reach.elements[0] * size
    return Lines(
        unique_bytes=unique,
        lines=np.maximum(times / still * np.minimum(1.0, least * size / CACHE_LINE), 1.0),
        unique_lines=np.maximum(unique / np.minimum(CACHE_LINE, together), 1.0),
        stride=np.where(place == last(steps.present), least, 0.0),
    )
