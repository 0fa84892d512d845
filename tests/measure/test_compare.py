"""Comparison of outputs: honest rounding passes, other numbers do not."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pruner.measure.compare import difference, first_difference, relative_tolerance


@pytest.mark.parametrize("terms", [64, 4608, 65536])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_another_summation_order_passes_and_a_missing_term_does_not(terms, dtype):
    rng = np.random.default_rng(terms)
    a = (2 * rng.random((8, terms)) - 1).astype(dtype)
    b = (2 * rng.random((terms, 8)) - 1).astype(dtype)
    sequential = np.zeros((8, 8), dtype)
    for k in range(terms):
        sequential += np.outer(a[:, k], b[k])
    tolerance = relative_tolerance([dtype], terms)
    assert difference(sequential, (a @ b).astype(dtype), tolerance) is None
    missing = a[:, 1:] @ b[1:]
    assert "largest error" in str(difference(sequential, missing, tolerance))


def test_half_precision_uses_its_own_epsilon():
    one = np.ones(16, ml_dtypes.bfloat16)
    close = (np.ones(16) * 1.0078125).astype(ml_dtypes.bfloat16)  # one unit in the last place
    assert difference(one, close, relative_tolerance(["bfloat16"], 1)) is None
    assert difference(one, close, relative_tolerance(["float32"], 1)) is not None
    assert relative_tolerance(["float32", "float16"], 4) == relative_tolerance(["float16"], 4)
    assert relative_tolerance(["int32"], 100) == 0.0


def test_integers_must_be_equal():
    a = np.arange(10, dtype=np.uint8)
    b = a.copy()
    assert difference(a, b, 0.5) is None
    b[3] = 255
    assert "(3,)" in str(difference(a, b, 0.5))
    assert "1 of 10" in str(difference(a, b, 0.5))


def test_nan_and_infinity():
    plain = np.array([1.0, 2.0, 3.0], np.float32)
    assert difference(plain, np.array([1.0, np.nan, 3.0], np.float32), 1e-3) is not None
    assert difference(plain, np.array([1.0, np.inf, 3.0], np.float32), 1e-3) is not None
    undefined = np.array([1.0, np.nan, np.inf], np.float32)
    assert difference(undefined, undefined.copy(), 1e-3) is None
    assert difference(undefined, np.array([1.0, np.nan, -np.inf], np.float32), 1e-3) is not None
    assert difference(undefined, np.array([1.0, np.nan, 3.0], np.float32), 1e-3) is not None
    assert difference(undefined, np.array([2.0, np.nan, np.inf], np.float32), 1e-3) is not None


def test_constant_zero_and_empty_outputs():
    zero = np.zeros((4, 4), np.float32)
    assert difference(zero, zero.copy(), 1e-4) is None
    assert difference(zero, zero + np.float32(1e-3), 1e-4) is not None
    assert difference(np.zeros((0, 3)), np.zeros((0, 3)), 1e-4) is None


def test_the_argument_that_differs_is_named():
    a, b = np.zeros(3), np.ones(3)
    assert first_difference([a, None, b], [a, None, b], 1e-6) is None
    assert str(first_difference([a, None, b], [a, None, b + 1], 1e-6)).startswith("argument 2")
