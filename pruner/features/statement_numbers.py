"""The numbers of TVM's per-store rows that are no buffer's: arithmetic, loops, allocation, intensity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pruner.features.accesses import Visit
from pruner.features.statement_columns import INTENSITIES
from pruner.features.stores import Store
from pruner.features.touched import at, last
from pruner.search.nest import Extent, product

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# Of a column: one for all candidates, or by candidate.
Number = float | NDArray[np.generic]

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


def annotated(visit: Visit, marked: Bools) -> list[Number]:
    """Of the loops that carry an annotation (`depth x m` bool): how many, their product, the innermost's
    extent, and the eight flags of their place, of which TVM sets the first or the last."""
    marked = marked & visit.runs.present
    if not marked.any():
        return [0.0, 0.0, 0.0, 1.0, *[0.0] * 7]
    extents = visit.runs.extents
    count = marked.sum(axis=0)
    some = count > 0
    whole = np.prod(extents, axis=0, where=marked) * some
    return [count, whole, at(extents, last(marked)), ~some, *[0.0] * 6, some]


def threads(store: Store, on_gpu: bool) -> list[Number]:
    """Whether the program is a GPU's, and the extents of the loops over blocks and threads."""
    if not on_gpu:
        return [0.0, *[1.0] * len(_AXES)]
    found: list[Number] = [1.0]
    for axis in _AXES:
        levels = [level for level, loop in enumerate(store.loops) if loop.kind.startswith(axis)]
        found.append(store.extents[levels[0]] if levels else 1.0)
    return found


def intensities(visit: Visit, operations: int) -> list[Number]:
    """Operations per byte of the inner loops that hold a tenth, two tenths, … of all operations, between two
    loops on the straight line."""
    depth, m = visit.runs.extents.shape
    if operations == 0 or depth == 0:
        return [0.0] * INTENSITIES
    # From the innermost loop outwards; a loop that is not there counts as the next one that is.
    there, rows = visit.runs.present[::-1], np.arange(m)
    some = there.any(axis=0)
    first = np.where(some, np.argmax(there, axis=0), depth - 1)
    levels = depth - 1 - np.maximum(np.arange(depth)[:, None], first)
    work = operations * visit.runs.inner[levels, rows]
    ratio = work / visit.bytes[levels, rows]
    wanted = np.arange(1, INTENSITIES + 1)[:, None] / INTENSITIES * work[-1]
    reached = np.argmax(work >= wanted[:, None] - 1e-4, axis=1)
    before = np.maximum(reached - 1, 0)
    base, top = ratio[before, rows], ratio[reached, rows]
    gap = work[reached, rows] - work[before, rows]
    slope = (top - base) / np.where(gap > 0, gap, 1.0)
    value = np.where(reached == 0, top, base + slope * (wanted - work[before, rows]))
    return list(np.where(some, np.abs(value), 0.0))


def allocation(shape: Sequence[Extent], itemsize: int, outer: Extent, times: Floats) -> list[Number]:
    """The allocation of the buffer that is stored to. times: how often the store runs."""
    elements = np.asarray(product(shape), dtype=np.float64)
    return [elements * itemsize, elements * outer, outer, times / outer]


def scaled(table: Floats) -> Floats:
    """`log2(1 + x)` of what is never negative; flags stay as they are."""
    return np.asarray(np.log2(table + 1.0))
