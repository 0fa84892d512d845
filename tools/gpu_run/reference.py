"""What the operators compute, in plain NumPy and double precision, and whether a program computed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# Of an operator: its sizes by name (kernel_size, stride, …), then its inputs.
Reference = Callable[..., np.ndarray]


def make_input(shape: list[int], dtype: str, seed: int) -> np.ndarray:
    """Random numbers in [-1, 1), the same on every machine."""
    return (2.0 * np.random.default_rng(seed).random(shape) - 1.0).astype(dtype)


def reference(operator: str, sizes: Mapping[str, Any], inputs: list[np.ndarray]) -> np.ndarray:
    """The operator's output, float64."""
    return REFERENCES[operator](sizes, *(array.astype(np.float64) for array in inputs))


def difference(expected: np.ndarray, output: np.ndarray, tolerance: float) -> str | None:
    """None when the output is right, else the largest error in words. An element may be off by `tolerance`
    times its own size plus the mean size of the array; NaN is always wrong. The rule of the package's
    measure/compare.py, which needs TVM."""
    if expected.shape != output.shape:
        return f"shape {output.shape} instead of {expected.shape}"
    error = np.abs(expected - output.astype(np.float64))
    error[np.isnan(error)] = np.inf
    size = np.abs(expected)
    wrong = error > tolerance * (size + size.mean())
    if not wrong.any():
        return None
    worst = np.unravel_index(int(np.argmax(error)), error.shape)
    place = tuple(int(i) for i in worst)
    return (
        f"largest error {error[worst]:.3g} at {place} ({output[worst]} instead of {expected[worst]:.6g}), "
        f"{int(wrong.sum())} of {error.size} elements differ"
    )


def _matmul(_: Mapping[str, Any], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x @ y


def _transposed_matmul(_: Mapping[str, Any], query: np.ndarray, value: np.ndarray) -> np.ndarray:
    return query.transpose(0, 2, 1, 3) @ value.transpose(0, 2, 3, 1)


def _conv2d(sizes: Mapping[str, Any], data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.tensordot(_windows(sizes, data), weight, axes=([3, 4, 5], [2, 0, 1]))


def _depthwise(sizes: Mapping[str, Any], data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.einsum("nhwckl,klc->nhwc", _windows(sizes, data), weight[0])


def _conv2d_bn_relu(
    sizes: Mapping[str, Any],
    data: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    offset: np.ndarray,
    scale: np.ndarray,
) -> np.ndarray:
    return np.maximum((_conv2d(sizes, data, weight) + bias) * scale + offset, 0.0)


def _softmax(_: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _norm(_: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    return np.sqrt((x * x).sum(axis=(1, 2)))


def _windows(sizes: Mapping[str, Any], data: np.ndarray) -> np.ndarray:
    """What a kernel sees at every place: n x h x w x channels x kernel rows x kernel columns."""
    padding, dilation = sizes["padding"], sizes["dilation"]
    padded = np.pad(data, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    reach = dilation * (sizes["kernel_size"] - 1) + 1
    windows = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(1, 2))
    step = sizes.get("stride", sizes.get("strides"))
    return windows[:, ::step, ::step, :, ::dilation, ::dilation]


# By the family's name in TVM's te_workload.
REFERENCES: dict[str, Reference] = {
    "GMM": _matmul,
    "TBG": _transposed_matmul,
    "C2D": _conv2d,
    "DIL": _conv2d,
    "DEP": _depthwise,
    "CBR": _conv2d_bn_relu,
    "SFM": _softmax,
    "NRM": _norm,
}
