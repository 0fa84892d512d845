"""Elements that a thread's straight-line code, a warp or a step touches on a GPU, and how they lie."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection
from pruner.search.members import accesses
from pruner.search.nest import Access, Loop

Floats = NDArray[np.float64]


def distinct(statement: GpuInspection, i: int) -> Floats:
    """float64[m], different elements of access `i` in straight-line code: what neighbouring outputs share, as
    the windows of a convolution do, is loaded once."""
    access, code = accesses(statement.batch.statement)[i], statement.code
    extents = {
        statement.loops[level]: np.where(unrolled, statement.extents[level], 1.0)
        for level, unrolled in zip(code.own, code.unrolled, strict=True)
    }
    windows, product = np.ones((2, len(statement.batch)))
    for index in access.index:
        width, count = np.ones_like(windows), np.ones_like(windows)
        for term, coefficient in index.terms.items():
            if isinstance(term, Loop) and term in extents:
                width = width + np.abs(coefficient) * (extents[term] - 1.0)
                count = count * extents[term]
        windows = windows * np.minimum(width, count)
    divided = _divided(access) & extents.keys()
    if divided:
        for level in code.own:
            extent = extents[statement.loops[level]]
            product = product * np.where(statement.moves[i][level], extent, 1.0)
        stands = np.all([extents[loop] == 1.0 for loop in divided], axis=0)
        windows = np.where(stands, windows, product)
    return windows * statement.shares[i]


def run(statement: GpuInspection, access: Access) -> Floats:
    """float64[m], elements that lie next to each other in memory among those that a block touches in a step:
    the last dimension's, and while whole rows are touched the next one's too."""
    far = ("blockIdx", "R0")
    relaxed = {loop for loop in statement.batch.statement.loops if statement.roles.of(loop) not in far}
    found, whole = np.ones(len(statement.batch)), np.ones(len(statement.batch), dtype=bool)
    for width, dim in zip(reversed(access.widths(relaxed)), reversed(access.buffer.shape), strict=True):
        found = np.where(whole, found * width, found)
        whole = whole & np.greater_equal(width, dim)
    return found


def warp_sectors(statement: GpuInspection, i: int, device: Device) -> Floats:
    """float64[m], sectors that a warp's load or store of access `i` touches: one for threads that walk far
    enough apart, one for all of them that stand still. A warp is filled from the innermost of the fused loops
    outwards."""
    access, sectors = accesses(statement.batch.statement)[i], np.ones(len(statement.batch))
    left = np.clip(statement.kernel.threads, 1.0, device.sm.warp)
    for level in reversed(statement.roles.span("threadIdx", statement.loops)):
        together = np.minimum(left, statement.extents[level])
        apart = np.abs(np.asarray(access.stride(statement.loops[level]), dtype=np.float64))
        reached = np.ceil(together * apart * access.buffer.itemsize / device.transaction)
        sectors = sectors * np.clip(reached, 1.0, together)
        left = left / together
    return sectors


def _divided(access: Access) -> set[Loop]:
    """The loops that stand in a floor term of the access."""
    terms = [term for index in access.index for term in index.terms if not isinstance(term, Loop)]
    return {loop for term in terms for loop in term.inner.loops()}
