"""The NumPy references against TVM's own programs, and the rule for what is right against the package's."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.s_tir.meta_schedule.testing import te_workload

from pruner.measure.compare import difference as package_difference
from tools.gpu_run.reference import difference, make_input, reference

SIZES = {
    "GMM": (2, 5, 6, 7),
    "TBG": (2, 6, 3, 5),
    "C2D": (2, 9, 8, 3, 5, 3, 2, 1),
    "DIL": (1, 11, 9, 3, 4, 3, 1, 2, 2),
    "DEP": (1, 9, 8, 6, 3, 2, 1),
    "CBR": (1, 8, 9, 3, 5, 3, 2, 1),
    "SFM": (7, 9),
    "NRM": (3, 5, 6),
}


@pytest.mark.parametrize("operator", sorted(SIZES))
def test_a_reference_computes_what_tvms_program_computes(operator: str) -> None:
    make = te_workload.CONFIGS[operator][0]
    sizes = inspect.signature(make).bind(*SIZES[operator])
    sizes.apply_defaults()
    *given, result = make(*SIZES[operator])
    inputs = [make_input([int(n) for n in x.shape], str(x.dtype), seed) for seed, x in enumerate(given)]
    function = tvm.compile(te.create_prim_func([*given, result]), target="llvm")
    output = tvm.runtime.empty([int(n) for n in result.shape], str(result.dtype))
    function(*(tvm.runtime.tensor(x) for x in inputs), output)
    expected = reference(operator, sizes.arguments, inputs)
    assert expected.dtype == np.float64
    np.testing.assert_allclose(output.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_wrong_means_what_the_package_means_by_it() -> None:
    rng = np.random.default_rng(0)
    verdicts = []
    for scale in 10.0 ** rng.uniform(-8, -3, 200):
        expected = rng.normal(size=(4, 5))
        output = (expected + scale * rng.normal(size=(4, 5))).astype(np.float32)
        ours, theirs = difference(expected, output, 1e-5), package_difference(expected, output, 1e-5)
        assert (ours is None) == (theirs is None)
        verdicts.append(ours is None)
    assert 20 < sum(verdicts) < 180
    output[0, 0] = np.nan
    assert difference(expected, output, 0.5) is not None
    assert difference(expected, output[:1], 0.5) is not None
