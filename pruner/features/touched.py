"""What a store touches of a buffer, loop by loop: how far it moves, and how many elements are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pruner.features.stores import Index, Memory, Store, Touch
from pruner.search.nest import Extent, Floor, Linear, Loop

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
_Kind = TypeVar("_Kind", bound=np.generic)

# Stands for the dimension of a loop that moves none.
STILL = -1


@dataclass(frozen=True, eq=False)
class Runs:
    """The loops of a store, outside in, fused ones as one: it stands where its outermost part stood.

    extents: `depth x m`, 1 where no loop stands. present: `depth x m` bool. inner: `(depth + 1) x m`, the
    product of the extents from a level inwards; inner[0] is how often the store runs. inside: `(depth + 1) x
    m`, the level of the first loop that stands from a level inwards; `depth` where none does.
    """

    extents: Floats
    present: Bools
    inner: Floats
    inside: Ints


def runs(store: Store) -> Runs:
    """The loops of a store."""
    extents = store.extents.copy()
    for level in np.flatnonzero(store.joined.any(axis=1))[::-1]:
        extents[level - 1] *= np.where(store.joined[level], extents[level], 1.0)
        extents[level] = np.where(store.joined[level], 1.0, extents[level])
    depth, m = extents.shape
    inner, inside = np.ones((depth + 1, m)), np.full((depth + 1, m), depth)
    inner[:-1] = np.cumprod(extents[::-1], axis=0)[::-1]
    inside[:-1] = np.where(store.present, np.arange(depth)[:, None], depth)
    return Runs(extents, store.present, inner, np.minimum.accumulate(inside[::-1], axis=0)[::-1])


def last(marked: Bools) -> Ints:
    """int64[m], how many rows there are down to the last that is marked; 0 where none is."""
    return np.asarray(np.max(np.arange(1, len(marked) + 1)[:, None] * marked, axis=0, initial=0))


def at(table: NDArray[_Kind], place: Ints) -> NDArray[_Kind]:
    """What the last of the first `place` rows holds, by column; 0 where there is none."""
    none = np.zeros_like(table, shape=(1, len(place)))
    return np.concatenate([none, table])[place, np.arange(len(place))]


@dataclass(frozen=True, eq=False)
class Reached:
    """What a store's accesses reach of one buffer, by level of its loops.

    elements: `(depth + 1) x m`, of the box that is touched while the loops from a level inwards run.
    widths: `dimensions x m`, that box for all loops. shape: `dimensions x m`, the buffer's.
    moves: `depth x m` bool, whether the loop moves the accessed element. strides: `depth x m`, elements from
        one turn of the loop to the next, in the innermost dimension that it moves, the least of all accesses.
    """

    elements: Floats
    widths: Floats
    shape: Floats
    moves: Bools
    strides: Floats


def reached(store: Store, touch: Touch, memory: Memory | None) -> Reached:
    """What the store reaches of the buffer. memory: that of an intermediate buffer which is shrunk to what is
    alive; None for one whose indices and dimensions count as they are."""
    m = store.extents.shape[1]
    fixed = frozenset() if memory is None else memory.fixed
    moving = [loop not in fixed for loop in store.loops]
    dims = touch.buffer.shape if memory is None else memory.shape
    shape = np.empty((len(dims), m))
    for n, dim in enumerate(dims):
        shape[n] = dim
    elements, widths = _boxes(store, touch.indices, moving, len(dims))
    pitch = np.ones_like(shape)
    if len(dims) > 1:
        pitch[:-1] = np.cumprod(shape[:0:-1], axis=0)[::-1]
    moves = np.zeros(store.extents.shape, dtype=bool)
    strides = np.full(store.extents.shape, np.inf)
    for index in touch.indices:
        where, steps = _steps(store, index, moving, pitch)
        moves |= where != STILL
        np.minimum(strides, np.where(where != STILL, steps, np.inf), out=strides)
    return Reached(elements, widths, shape, moves, np.where(moves, strides, 0.0))


def _boxes(
    store: Store, indices: Sequence[Index], moving: Sequence[bool], dimensions: int
) -> tuple[Floats, Floats]:
    """`(depth + 1) x m` elements and `dimensions x m` widths of the box around all accesses."""
    depth, m = store.extents.shape
    elements = np.ones((depth + 1, m))
    widths = np.ones((dimensions, m))
    for n in range(dimensions):
        spans = [_spans(store, index[n], moving) for index in indices]
        lows = [low for low, _ in spans]
        highs = [high for _, high in spans]
        span = np.maximum.reduce(highs) - np.minimum.reduce(lows) + 1.0
        elements[:depth] *= span
        if depth:
            widths[n] = span[0]
    return elements, widths


def _spans(store: Store, form: Linear, moving: Sequence[bool]) -> tuple[Floats, Floats]:
    """`depth x m` each: the least and the greatest value while the loops from a level inwards run. The end of
    a range is not clipped: TVM lets a copy's last turn overshoot."""
    low, high = np.empty(store.extents.shape), np.empty(store.extents.shape)
    inside = form.loops()
    relaxed: list[Loop] = []
    now: tuple[Extent, Extent] = form.const, form.const
    for level in reversed(range(len(store.loops))):
        loop = store.loops[level]
        if moving[level] and loop in inside:
            relaxed.append(loop)
            now = form.range(relaxed)
        low[level], high[level] = now
    return low, high


def _steps(
    store: Store, index: Index, moving: Sequence[bool], pitch: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """`depth x m` each: the innermost dimension that a loop moves, and elements between two of its turns.
    Of a fused loop, those of the innermost part that moves that dimension."""
    where = np.full(store.extents.shape, STILL)
    steps = np.zeros(store.extents.shape)
    for n, form in enumerate(index):
        inside = form.loops()
        for level, loop in enumerate(store.loops):
            step = _step(form, loop) if moving[level] and loop in inside else None
            if step is not None:
                moved = np.not_equal(step.size, 0)
                np.copyto(where[level], n, where=moved)
                np.copyto(steps[level], step.size * pitch[n], where=moved)
    for level in np.flatnonzero(store.joined.any(axis=1))[::-1]:
        joined = store.joined[level]
        inner = joined & (where[level] >= where[level - 1])
        np.copyto(where[level - 1], where[level], where=inner)
        np.copyto(steps[level - 1], steps[level], where=inner)
        np.copyto(where[level], STILL, where=joined)
    return where, steps


@dataclass(frozen=True, eq=False)
class _Step:
    """How far a value moves from one turn of a loop to the next: size, 0 where it stays, and whether every
    turn moves it as far."""

    size: Extent
    even: Bools | bool


def _step(form: Linear, loop: Loop) -> _Step | None:
    """The step of a value, None for a form without the loop. Of a floor term it is, as TVM's extractor reads
    it, the term's own coefficient, or the loop's inside the term where that is 1."""
    found: _Step | None = None
    for term, coefficient in form.terms.items():
        if isinstance(term, Floor):
            step = _floor_step(term, loop, coefficient)
        elif term is loop:
            step = _Step(np.abs(coefficient) * np.not_equal(loop.extent, 1), True)
        else:
            continue
        if step is not None and found is not None:
            step = _Step(np.where(np.not_equal(step.size, 0), step.size, found.size), False)
        found = step or found
    return found


def _floor_step(term: Floor, loop: Loop, coefficient: Extent) -> _Step | None:
    inner = _step(term.inner, loop)
    if inner is None:
        return None
    size, divisor, scale = np.asarray(inner.size), term.divisor, np.abs(coefficient)
    moves = size != 0
    # Steps of whole blocks count blocks in a division, and come back to the same place in a remainder.
    blocks = (size % divisor == 0) & inner.even
    if term.remainder:
        moves &= ~blocks
        even = blocks
    else:
        low, high = term.range((loop,))
        moves &= np.not_equal(low, high) | _crosses(term, loop)
        # Steps that divide a block end up in the next one.
        size = np.where(blocks, size // divisor, np.where(divisor % np.maximum(size, 1) == 0, 1, size))
        even = blocks & inner.even
    return _Step(np.where(scale == 1, size, scale) * moves, even & (scale == 1))


def _crosses(term: Floor, loop: Loop) -> Bools:
    """Whether the loop takes a division into another block from some place that other loops bring it to."""
    low, high = term.inner.range((loop,))
    blocks = np.asarray(term.divisor)
    alone = True
    for part, coefficient in term.inner.terms.items():
        if part is loop or (isinstance(part, Floor) and loop in part.inner.loops()):
            continue
        first, last = (0, part.extent - 1) if isinstance(part, Loop) else part.range(part.inner.loops())
        blocks = np.gcd(blocks, np.where(np.not_equal(first, last), coefficient, 0))
        alone = False
    return np.asarray(not alone and np.greater_equal(np.subtract(high, low), blocks))
