"""Generated CUDA code: its kernels, run one thread after the other, compute what the program says."""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tvm.ir import IRModule
from tvm.script import tirx as T
from tvm.target import Target

from pruner.errors import CompileError
from pruner.measure.cuda import Launch, generate
from pruner.measure.program import Argument

A100 = Target("nvidia/nvidia-a100")

_SERIAL = """
#include <cmath>
#define __global__
#define __launch_bounds__(...)
struct Index { int x, y, z; };
static Index blockIdx, threadIdx;
extern "C" void place(int bx, int by, int bz, int tx, int ty, int tz) {
  blockIdx = {bx, by, bz};
  threadIdx = {tx, ty, tz};
}
"""


@pytest.fixture
def serial(tmp_path):
    """Compiles kernels without barriers for the CPU; calls them for every thread."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")

    def run(generated, arrays):
        code, library = tmp_path / "kernels.cc", tmp_path / "kernels.so"
        kernels = generated.source[generated.source.index('extern "C" __global__') :]
        code.write_text(_SERIAL + kernels)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", str(code), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
        for launch in generated.launches:
            pointers = [arrays[i].ctypes.data_as(ctypes.c_void_p) for i in launch.arguments]
            for place in itertools.product(*map(range, (*launch.grid, *launch.block))):
                loaded.place(*place)
                getattr(loaded, launch.name)(*pointers)

    return run


def test_kernels_run_in_order_on_their_buffers(cuda_programs, serial):
    """D = (A @ B).T / row sums of C: three kernels, two workspaces; the shapes tell the buffers apart."""
    mod = cuda_programs.three_kernels()
    generated = generate(mod, A100)
    assert len(generated.launches) == 3
    assert generated.parameters == 4
    assert sorted(math.prod(buffer.shape) for buffer in generated.buffers[4:]) == [5, 15]
    arrays = [
        np.random.default_rng(i).random(buffer.shape, np.float32)
        for i, buffer in enumerate(generated.buffers)
    ]
    serial(generated, arrays)
    a, b, c, d = arrays[:4]
    np.testing.assert_allclose(d, (a @ b).T / c.sum(axis=1)[None, :], rtol=1e-5)


def test_launches_are_those_of_the_schedule(cuda_programs):
    generated = generate(cuda_programs.shared(), A100)
    float32 = Argument((4, 32), "float32")
    assert generated.launches == (Launch("main_kernel", (4, 1, 1), (32, 1, 1), (0, 1)),)
    assert generated.buffers == (float32, float32)
    assert generated.parameters == 2
    assert "__shared__" in generated.source
    grid = generate(cuda_programs.grid(), A100)
    assert (grid.launches[0].grid, grid.launches[0].block) == ((2, 3, 5), (7, 11, 13))


def test_programs_that_are_no_gpu_programs(programs):
    with pytest.raises(CompileError, match="bound"):
        generate(programs.matmul(8), A100)


@T.prim_func(s_tir=True)
def in_a_loop(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 32), "float32")):
    for i in T.serial(4):
        for j in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("C"):
                v, w = T.axis.remap("SS", [i, j])
                C[v, w] = A[v, w]


@T.prim_func(s_tir=True)
def with_a_number(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 32), "float32"), n: T.int32):
    for j in T.thread_binding(32, thread="threadIdx.x"):
        with T.sblock("C"):
            w = T.axis.remap("S", [j])
            C[n, w] = A[n, w]


@pytest.mark.parametrize(
    ("program", "said"), [(in_a_loop, "in a loop over i"), (with_a_number, "takes n, which is no buffer")]
)
def test_launches_that_depend_on_more_than_constants_are_refused(program, said):
    with pytest.raises(CompileError, match=said):
        generate(IRModule({"main": program.with_attr("global_symbol", "main")}), A100)


def test_several_threads_generate_at_once_and_leave_the_process_as_it_was(cuda_programs):
    before = dict(os.environ)
    with ThreadPoolExecutor(4) as pool:
        sources = list(pool.map(lambda _: generate(cuda_programs.shared(), A100).source, range(40)))
    assert len(set(sources)) == 1
    assert dict(os.environ) == before
