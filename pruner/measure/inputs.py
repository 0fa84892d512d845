"""The arrays programs are called with: made once per worker, the same data for every candidate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from numpy.typing import NDArray

from pruner.measure.program import Argument

_SEED = 2025


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy type of a TVM type; bfloat16 and the 8-bit floats come from ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, dtype)) if hasattr(ml_dtypes, dtype) else np.dtype(dtype)


def random_array(argument: Argument, seed: int, *, below: int = 8, positive: bool = False) -> NDArray[Any]:
    """Random data in a range every program can bear: floats in [-1, 1), or in [0.1, 1) when `positive`;
    8-bit integers over their whole range; wider ones in [0, below), since they may be indices; booleans."""
    rng = np.random.default_rng([_SEED, seed])
    dtype = numpy_dtype(argument.dtype)
    shape = argument.shape or ()
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind in "iu":
        if dtype.itemsize > 1:
            return rng.integers(0, below, shape).astype(dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, int(info.max) + 1, shape).astype(dtype)
    low = 0.1 if positive else -1.0
    return (low + (1.0 - low) * rng.random(shape, dtype=np.float32)).astype(dtype)


class Inputs:
    """Data and device arrays by position and type; a program with other layouts gets arrays of its own.

    Args:
        untuned: the arguments of the untuned program. Integers stay below the shortest axis, in case that
            they are indices; an axis of one element has no say, or nearly all would be zero.
        device: where the arrays lie, a TVM device; by default the CPU.
    """

    def __init__(self, untuned: Iterable[Argument], device: Any = None) -> None:
        self._place = tvm.cpu() if device is None else device
        extents = [extent for argument in untuned for extent in argument.shape or () if extent > 1]
        self._below = min([8, *extents])
        self._host: dict[tuple[int, Argument, bool], NDArray[Any]] = {}
        self._device: dict[tuple[int, Argument], Any] = {}

    def call_arguments(self, arguments: Iterable[Argument]) -> list[Any]:
        """What to call a function with: arrays, and 1 for scalars."""
        return [self._array(i, argument) for i, argument in enumerate(arguments)]

    def reset(
        self, arguments: Iterable[Argument], *, only: Iterable[int] | None = None, positive: bool = False
    ) -> None:
        """Restores the data of every array, or of the positions in `only`."""
        chosen = None if only is None else set(only)
        for i, argument in enumerate(arguments):
            if argument.shape is not None and (chosen is None or i in chosen):
                self._fill(i, argument, positive)

    def values(self, arguments: Iterable[Argument]) -> list[NDArray[Any] | None]:
        """A copy of what each array holds now; None for scalars."""
        return [
            None if argument.shape is None else self._array(i, argument).numpy()
            for i, argument in enumerate(arguments)
        ]

    def _array(self, position: int, argument: Argument) -> Any:
        if argument.shape is None:
            return 1.0 if argument.dtype.startswith(("float", "bfloat")) else 1
        key = (position, argument)
        if key not in self._device:
            self._device[key] = tvm.runtime.empty(argument.shape, argument.dtype, self._place)
            self._fill(position, argument, False)
        return self._device[key]

    def _fill(self, position: int, argument: Argument, positive: bool) -> None:
        array = self._array(position, argument)
        if 0 in (argument.shape or ()):
            return
        key = (position, argument, positive)
        if key not in self._host:
            self._host[key] = random_array(argument, position, below=self._below, positive=positive)
        array.copyfrom(self._host[key])
