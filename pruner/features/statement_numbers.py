"""The numbers of TVM's per-store rows that are no buffer's: arithmetic, loops, allocation, intensity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pruner.features.accesses import Visit
from pruner.features.statement_columns import INTENSITIES
from pruner.features.stores import Store
from pruner.search.nest import Extent

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# TVM counts by these kinds; those of `Statement.ops` that each holds.
_FLOAT = {
    "mad": (),
    "add_sub": ("add",),
    "mul": ("mul",),
    "div_mod": ("div", "mod"),
    "cmp": ("max",),
    "math": ("exp", "root", "select"),
    "other": (),
}
_AXES = (*(f"{index}.{axis}" for index in ("blockIdx", "threadIdx") for axis in "xyz"), "vthread")


def float_operations(ops: Mapping[str, int]) -> list[int]:
    """Floating-point operations of one instance, by TVM's kinds."""
    # Padding tests inside one another are simplified to one.
    once = {**ops, "select": min(1, ops.get("select", 0))}
    return [sum(once.get(kind, 0) for kind in kinds) for kinds in _FLOAT.values()]


def annotated(visit: Visit, marked: Bools) -> list[Floats]:
    """Of the loops that carry an annotation (`depth x m` bool): how many, their product, the innermost's
    extent, and the eight flags of their place, of which TVM sets the first or the last."""
    marked = marked & visit.runs.present
    extents = visit.runs.extents
    count = marked.sum(axis=0).astype(np.float64)
    some = count > 0
    whole = np.where(some, np.prod(np.where(marked, extents, 1.0), axis=0), 0.0)
    last = np.zeros_like(count)
    for level, row in enumerate(marked):
        last = np.where(row, extents[level], last)
    zero = np.zeros_like(count)
    return [*map(scaled, (count, whole, last)), 1.0 - some, *[zero] * 6, some.astype(np.float64)]


def threads(store: Store, on_gpu: bool) -> list[Floats]:
    """Whether the program is a GPU's, and the extents of the loops over blocks and threads."""
    m = store.extents.shape[1]
    found = [np.full(m, float(on_gpu))]
    for axis in _AXES:
        levels = [level for level, loop in enumerate(store.loops) if loop.kind.startswith(axis)]
        extent = store.extents[levels[0]] if on_gpu and levels else np.ones(m)
        found.append(scaled(extent))
    return found


def intensities(visit: Visit, operations: int) -> list[Floats]:
    """Operations per byte of the inner loops that hold a tenth, two tenths, … of all operations, between two
    loops on the straight line."""
    depth, m = visit.runs.extents.shape
    zero = np.zeros(m)
    if operations == 0 or depth == 0:
        return [zero] * INTENSITIES
    present = visit.runs.present
    # From the innermost loop outwards; a loop that is not there counts as the next one that is.
    work = operations * visit.runs.inner[:-1][::-1]
    memory = visit.bytes[::-1].copy()
    there = present[::-1]
    work = work.copy()
    for level in reversed(range(depth - 1)):
        gone = ~there[level] & ~there[:level].any(axis=0)
        work[level] = np.where(gone, work[level + 1], work[level])
        memory[level] = np.where(gone, memory[level + 1], memory[level])
    total = work[-1]
    ratio = work / memory
    rows = np.arange(m)
    found = []
    for i in range(INTENSITIES):
        wanted = (i + 1) / INTENSITIES * total
        at = np.argmax(work >= wanted - 1e-4, axis=0)
        before = np.maximum(at - 1, 0)
        base, top = ratio[before, rows], ratio[at, rows]
        gap = work[at, rows] - work[before, rows]
        slope = (top - base) / np.where(gap > 0, gap, 1.0)
        value = np.where(at == 0, top, base + slope * (wanted - work[before, rows]))
        found.append(np.where(present.any(axis=0), scaled(np.abs(value)), 0.0))
    return found


def allocation(shape: Sequence[Extent], itemsize: int, outer: Extent, times: Floats) -> list[Floats]:
    """The allocation of the buffer that is stored to. times: how often the store runs."""
    elements = np.ones_like(times)
    for dim in shape:
        elements = elements * dim
    around = np.broadcast_to(np.asarray(outer, dtype=np.float64), times.shape)
    return [*map(scaled, (elements * itemsize, elements * around, around, times / around))]


def scaled(value: Floats | float) -> Floats:
    """`log2(1 + x)` of what is never negative."""
    return np.asarray(np.log2(np.add(value, 1.0)))
