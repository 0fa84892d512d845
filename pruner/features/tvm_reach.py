"""What a store reaches of a buffer as TVM's per-store extractor counts it (per_store_feature.cc).

It binds every loop to zero before it binds it to its range, and its analyzer remembers from the first that
the loop is a multiple of anything. A remainder that the simplifier left in an index therefore never moves.
The stride of a loop is what TVM's walk over the printed expression remembers last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pruner.features.digits import ENDLESS, Digit
from pruner.features.simplified import Simplifier
from pruner.features.stores import Memory, Store, Touch
from pruner.features.touched import Reached
from pruner.search.nest import Loop

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def reached_by_tvm(store: Store, touch: Touch, memory: Memory | None, simplifier: Simplifier) -> Reached:
    """What the store reaches of the buffer; `memory` is that of an intermediate buffer, which is shrunk."""
    depth, m = store.extents.shape
    dims = touch.buffer.shape if memory is None else memory.shape
    shape = np.empty((len(dims), m))
    for n, dim in enumerate(dims):
        shape[n] = dim
    pitch = np.ones_like(shape)
    if len(dims) > 1:
        pitch[:-1] = np.cumprod(shape[:0:-1], axis=0)[::-1]
    fixed = [frozenset[Loop]()] * len(dims) if memory is None else list(memory.fixed_in)
    lows = np.full((len(dims), depth + 1, m), np.inf)
    highs = np.full((len(dims), depth + 1, m), -np.inf)
    moves = np.zeros((depth, m), dtype=bool)
    strides = np.full((depth, m), np.inf)
    for index in touch.plain:
        own = np.zeros((depth, m))
        for n, form in enumerate(index):
            digits, const = simplifier.digits(form, fixed[n])
            low, high = _range(digits, const, depth)
            np.minimum(lows[n], low, out=lows[n])
            np.maximum(highs[n], high, out=highs[n])
            moved, step = _strides(digits, depth, m)
            own = np.where(moved, step * pitch[n], own)
        here = own > 0
        moves |= here
        np.minimum(strides, np.where(here, own, np.inf), out=strides)
    widths = highs - lows + 1.0
    elements = np.prod(widths, axis=0) if len(dims) else np.ones((depth + 1, m))
    return Reached(elements, widths[:, 0], shape, moves, np.where(moves, strides, 0.0))


def _range(digits: Sequence[Digit], const: Ints, depth: int) -> tuple[Floats, Floats]:
    """`(depth + 1) x m` each: the least and the greatest value while the loops from a level inwards run."""
    levels = np.arange(depth + 1)[:, None]
    low = np.repeat(const[None].astype(np.float64), depth + 1, axis=0)
    high = low.copy()
    for digit in digits:
        if digit.at is not None:
            reach = digit.scale * (digit.atoms[0].extent - 1)
            low[: digit.at + 1] += np.minimum(reach, 0)
            high[: digit.at + 1] += np.maximum(reach, 0)
            continue
        still = _digit(digit.const, digit)
        most = np.repeat(digit.const[None], depth + 1, axis=0)
        for atom in digit.atoms:
            reach = np.where(atom.up == ENDLESS, atom.coef * ((atom.extent - 1) // atom.low), 0)
            most = most + np.where(atom.level >= levels, reach, 0)
        moved = np.where(digit.up == ENDLESS, most // digit.low, still)
        low += np.minimum(digit.scale * still, digit.scale * moved)
        high += np.maximum(digit.scale * still, digit.scale * moved)
    return low, high


def _digit(value: Ints, digit: Digit) -> Ints:
    return np.asarray(np.where(digit.up == ENDLESS, value, value % digit.up) // digit.low)


def _strides(digits: Sequence[Digit], depth: int, m: int) -> tuple[Bools, Floats]:
    """`depth x m` each: whether a loop stands in the expression, and the stride that TVM reads off it.

    Terms stand in the order of their scales, the largest first, and the walk remembers the last factor that
    it meets at or after the loop's own term, unless it meets a sum first.
    """
    levels = np.arange(depth)[:, None]
    moved = np.zeros((depth, m), dtype=bool)
    largest = np.zeros((depth, m), dtype=np.int64)
    found = np.zeros((depth, m))
    if not digits:
        return moved, found
    scales = np.stack([digit.scale for digit in digits])
    sizes = np.abs(scales)
    last, after = _last_factor(digits, scales)
    factors = np.where((sizes >= 2) | (after & (scales == -1)), last, 1)
    for digit, size, factor in zip(digits, sizes, factors, strict=True):
        if digit.at is not None:
            np.copyto(found[digit.at], factor, where=size > largest[digit.at])
            np.maximum(largest[digit.at], size, out=largest[digit.at])
            moved[digit.at] |= size > 0
            continue
        for atom in digit.atoms:
            there = (size > 0) & (atom.coef != 0) & (atom.level == levels)
            if not there.any():
                continue
            own = factor
            if len(digit.atoms) > 1:
                summed = (atom.coef == 1) & (_least(digit) < ENDLESS)
                own = np.where(summed, 1, np.where((size < 2) & (atom.coef >= 2), last, factor))
            better = there & (size > largest)
            found = np.where(better, own, found)
            largest = np.where(better, size, largest)
            moved |= there
    return moved, found


def _last_factor(digits: Sequence[Digit], scales: Ints) -> tuple[Ints, Bools]:
    """int64[m], the last factor in the expression, and where a term that is taken away has it: those stand
    last. scales: `digits x m`."""
    sizes = np.abs(scales)
    last = np.min(np.where(sizes >= 2, sizes, ENDLESS), axis=0)
    most = np.max(np.where(scales <= -2, sizes, 0), axis=0)
    for digit in digits:
        if len(digit.atoms) > 1:
            inner = _least(digit)
            last = np.where((np.abs(digit.scale) == 1) & (inner < ENDLESS), inner, last)
    return np.where(most > 0, most, last), most > 0


def _least(digit: Digit) -> Ints:
    """The least factor inside the digit's sum."""
    least = np.full_like(digit.scale, ENDLESS)
    for atom in digit.atoms:
        np.minimum(least, np.where(atom.coef >= 2, atom.coef, ENDLESS), out=least)
    return least
