"""Whether TVM's detection of iterators (iter_affine_map.cc) can tell the terms of a sum from one another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.features.digits import ENDLESS

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def leaves_gap(scales: Ints, extents: Ints) -> Bools:
    """bool[m], whether terms, `k x m` scales and numbers of values, leave a gap.

    The detection takes them from the smallest scale up, each at the scale that the last one ends at, or else,
    of a sum with a term of scale 1, at the closest smaller one, and may find none.
    """
    rows = np.arange(scales.shape[1])
    open_ = (scales > 0) & (extents > 1)
    unit = np.min(np.where(open_, scales, ENDLESS), axis=0) == 1
    found, end = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=np.int64)
    for step in range(len(scales)):
        # The smallest first, then the one at the end, or the closest below it.
        at = np.argmin(np.where(open_, scales, ENDLESS), axis=0)
        if step:
            below = np.where(open_ & ((scales == end) | (unit & (scales < end))), scales, -1)
            at = np.argmax(below, axis=0)
            found |= open_.any(axis=0) & (below[at, rows] < 0)
        end = np.where(open_[at, rows], scales[at, rows] * extents[at, rows], end)
        open_[at, rows] = False
    return found
