"""Whether two programs computed the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from pruner.measure.inputs import numpy_dtype

# Rounding errors of a sum of K terms grow with sqrt(K) (Higham, Accuracy and Stability, section 4.2);
# this factor over the standard deviation is far beyond any honest re-ordering, far below any bug.
_SAFETY = 16.0


def relative_tolerance(dtypes: Iterable[str], terms: int) -> float:
    """Error allowed relative to the size of the numbers, for the coarsest float type among those that are
    written; 0 when there is none. terms: how many numbers a reduction adds up."""
    coarsest = 0.0
    for name in dtypes:
        dtype = numpy_dtype(name)
        if dtype.kind not in "iub":
            coarsest = max(coarsest, _epsilon(dtype))
    return min(_SAFETY * coarsest * float(np.sqrt(terms)), 0.5)


def difference(reference: NDArray[Any], output: NDArray[Any], tolerance: float) -> str | None:
    """None when the arrays agree, else the largest error in words.

    Integers must be equal. A float may be off by `tolerance` times its own size plus the mean size of the
    array. Infinities must agree; a NaN is accepted only where the reference has one."""
    if reference.shape != output.shape:
        return f"shape {output.shape} instead of {reference.shape}"
    if reference.size == 0:
        return None
    if reference.dtype.kind in "iub":
        wrong = reference != output
        if not wrong.any():
            return None
        error = np.abs(reference.astype(np.float64) - output.astype(np.float64))
        return _describe(reference, output, error, int(wrong.sum()))
    expected, got = reference.astype(np.float64), output.astype(np.float64)
    known = ~np.isnan(expected)
    finite = np.isfinite(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(known & (expected != got), np.abs(expected - got), 0.0)
        error[known & np.isnan(got)] = np.inf
        size = np.abs(np.where(finite, expected, 0.0))
        allowed = tolerance * (size + size.sum() / max(1, finite.sum()))
    wrong = error > allowed
    return _describe(reference, output, error, int(wrong.sum())) if wrong.any() else None


def first_difference(
    references: Sequence[NDArray[Any] | None], outputs: Sequence[NDArray[Any] | None], tolerance: float
) -> str | None:
    """The first argument that differs, in words; None when all agree."""
    for position, (reference, output) in enumerate(zip(references, outputs, strict=True)):
        if reference is None or output is None:
            continue
        text = difference(reference, output, tolerance)
        if text is not None:
            return f"argument {position}: {text}"
    return None


def _epsilon(dtype: np.dtype[Any]) -> float:
    finfo: Any = ml_dtypes.finfo  # untyped; numpy's own does not know bfloat16
    return float(finfo(dtype).eps)


def _describe(reference: NDArray[Any], output: NDArray[Any], error: NDArray[Any], count: int) -> str:
    worst = np.unravel_index(int(np.argmax(error)), reference.shape)
    return (
        f"largest error {error[worst]:.3g} at {tuple(int(i) for i in worst)} "
        f"({output[worst]} instead of {reference[worst]}), {count} of {reference.size} elements differ"
    )
