"""How far an access moves when a loop takes a step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.search.nest import Access, Floor, Loop

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Strides:
    """Elements an access moves per step of each loop, worked out when asked for; NaN where a floor term
    makes the steps uneven."""

    def __init__(self, access: Access, loops: tuple[Loop, ...], m: int) -> None:
        self._access, self._loops, self._m = access, loops, m
        self._floors = any(isinstance(term, Floor) for index in access.index for term in index.terms)
        self._known: dict[int, Floats] = {}

    def __getitem__(self, level: int) -> Floats:
        if level not in self._known:
            access, loop = self._access, self._loops[level]
            stride = np.broadcast_to(np.asarray(access.stride(loop), dtype=np.float64), self._m)
            if self._floors and access.indexed_by(loop):
                # In step with its stride the loop reaches as many elements as it has iterations.
                span = np.asarray(access.footprint([loop]), dtype=np.float64)
                steady = np.where(stride == 0, 1, np.subtract(loop.extent, 1) * np.abs(stride) + 1)
                stride = np.where((span != steady) & (stride < 2), np.nan, stride)
            self._known[level] = stride
        return self._known[level]

    def even(self, level: int) -> Bools:
        """Whether the access stands still or walks to the next element."""
        stride = self[level]
        return np.asarray((stride == 0) | (stride == 1))
