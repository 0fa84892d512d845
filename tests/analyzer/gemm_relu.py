"""The paper's example program with chosen tiles."""

from __future__ import annotations

from functools import cache

import numpy as np
from tvm import te, tirx
from tvm.tirx import PrimFunc

from pruner.search.population import UNUSED, Population
from pruner.search.space import Space
from pruner.workload import make_task
from tests.analyzer.analyzer_util import TARGET

N = 128


def program(n: int, dtype: str = "float32") -> PrimFunc:
    """`D = max(A B, 0)` of matrices `n x n`."""
    a, b = (te.placeholder((n, n), dtype, name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, n), lambda i, j: tirx.max(c[i, j], tirx.const(0, dtype)), name="D")
    return te.create_prim_func([a, b, d])


@cache
def gemm_relu() -> Space:
    return Space.of(make_task(program(N), TARGET, "gemm_relu"))


def tiled(i: list[int], j: list[int], k: list[int], unroll: int = 0, sketch: int = 1) -> Population:
    """One row with these tile factors and unroll category. Sketch 0 leaves ReLU a nest of its own; 1 and 2
    compute it inside the second and first outer tile loops."""
    space = gemm_relu()
    decisions = np.full(space.width, UNUSED, dtype=np.int64)
    decisions[: len(i + j + k) + 1] = [*i, *j, *k, unroll]
    return Population(space, np.array([sketch]), decisions[None])
