"""Small programs to measure, and candidates made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import tvm
from tvm import te
from tvm.ir import IRModule
from tvm.s_tir import Schedule, dlight
from tvm.s_tir.schedule import Trace
from tvm.script import tirx as T
from tvm.target import Target
from tvm.tirx import PrimFunc

from pruner.measure.local import LocalMeasurer
from pruner.search.candidate import Candidate
from pruner.workload import Task

TARGET = Target({"kind": "llvm", "num-cores": 2})


class HandMade(Candidate):
    """A candidate around any module."""

    def __init__(self, mod: IRModule) -> None:
        self.schedule = Schedule(mod)
        self.key = str(id(self)).encode()

    @property
    def decided(self) -> Trace:
        return self.schedule.trace

    def materialise(self) -> Schedule:
        return self.schedule


def module(func: PrimFunc) -> IRModule:
    """The module of one function called main."""
    return IRModule({"main": func.with_attr("global_symbol", "main")})


def matmul(n: int = 64, scale: float = 1.0) -> IRModule:
    """`n x n` matrix product, times a factor."""
    a = te.placeholder((n, n), "float32", name="A")
    b = te.placeholder((n, n), "float32", name="B")
    k = te.reduce_axis((0, n), name="k")
    factor = te.const(scale, "float32")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * factor * b[k, j], axis=k), name="C")
    return module(te.create_prim_func([a, b, c]))


def tiled(mod: IRModule, tile: int = 8) -> HandMade:
    """The matrix product in tiles, on one thread."""
    candidate = HandMade(mod)
    sch = candidate.schedule
    i, j, k = sch.get_loops(sch.get_sblock("C"))
    io, ii = sch.split(i, [None, tile])
    jo, ji = sch.split(j, [None, tile])
    sch.reorder(io, jo, k, ii, ji)
    sch.vectorize(ji)
    return candidate


@T.prim_func(s_tir=True)
def copy(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = A[v]


@T.prim_func(s_tir=True)
def undefined(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = T.truncdiv(A[v], A[v] - A[v])


@T.prim_func(s_tir=True)
def outside(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = A[v * 500000000 + 500000000]


@T.prim_func(s_tir=True)
def raising(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.sblock("C"):
            v = T.axis.spatial(4, i)
            C[v] = A[v]
            T.evaluate(T.call_packed("no.such.function", v))


@T.prim_func(s_tir=True)
def endless(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i, j in T.grid(4, 2000000000):
        with T.sblock("C"):
            v, w = T.axis.remap("SR", [i, j])
            C[v] = T.truncmod(C[v] * C[v] + A[v], A[v] * 1000 + 7 + w)


@T.prim_func(s_tir=True)
def unrolled(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        for j in T.unroll(20000):
            with T.sblock("C"):
                v, w = T.axis.remap("SR", [i, j])
                C[v] = C[v] * A[T.truncmod(C[v], 4)] + T.truncdiv(C[v], A[v] + 1 + w)


@pytest.fixture(scope="session")
def programs() -> SimpleNamespace:
    """Modules by name. undefined: LLVM lowering refuses it; outside: a segmentation fault; raising: an
    exception when it runs; endless: hours; unrolled: minutes to compile."""
    names = {"copy": copy, "undefined": undefined, "outside": outside, "raising": raising}
    names |= {"endless": endless, "unrolled": unrolled}
    return SimpleNamespace(
        **{name: module(func) for name, func in names.items()},
        matmul=matmul,
        module=module,
        tiled=tiled,
        candidate=HandMade,
        target=TARGET,
    )


@T.prim_func(s_tir=True)
def shared(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 32), "float32")):
    S = T.sblock_alloc_buffer((4, 32), "float32", scope="shared")
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for j in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("S"):
                v, w = T.axis.remap("SS", [i, j])
                S[v, w] = A[v, w]
        for j in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("C"):
                v, w = T.axis.remap("SS", [i, j])
                C[v, w] = S[v, 31 - w]


def undefined_call() -> IRModule:
    """A kernel that calls what nvcc does not know."""
    a = te.placeholder((32,), "float32", name="A")
    c = te.compute((32,), lambda i: tvm.tirx.call_pure_extern("float32", "nowhere", a[i]), name="C")
    return bound(module(te.create_prim_func([a, c])))


def bound(mod: IRModule) -> IRModule:
    """Every stage as a kernel, one thread an element."""
    with Target("nvidia/nvidia-a100"):
        return dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(mod)


def two_kernels() -> IRModule:
    """Softmax without its maximum: row sums, then the quotient."""
    a = te.placeholder((8, 16), "float32", name="A")
    k = te.reduce_axis((0, 16), name="k")
    s = te.compute((8,), lambda i: te.sum(te.exp(a[i, k]), axis=k), name="S")
    c = te.compute((8, 16), lambda i, j: te.exp(a[i, j]) / s[i], name="C")
    return bound(module(te.create_prim_func([a, c])))


def three_kernels() -> IRModule:
    """D = (A @ B).T / row sums of C; the shapes differ."""
    a = te.placeholder((5, 7), "float32", name="A")
    b = te.placeholder((7, 3), "float32", name="B")
    c = te.placeholder((5, 4), "float32", name="C")
    k, m = te.reduce_axis((0, 7), name="k"), te.reduce_axis((0, 4), name="m")
    p = te.compute((5, 3), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="P")
    s = te.compute((5,), lambda i: te.sum(c[i, m], axis=m), name="S")
    d = te.compute((3, 5), lambda i, j: p[j, i] / s[j], name="D")
    return bound(module(te.create_prim_func([a, b, c, d])))


def grid() -> IRModule:
    """Six loops, one on each axis of blocks and threads."""
    a = te.placeholder((2, 3, 5, 7, 11, 13), "float32", name="A")
    c = te.compute(a.shape, lambda *i: a[i] + 1.0, name="C")
    sch = Schedule(module(te.create_prim_func([a, c])))
    tags = [f"{unit}.{axis}" for unit in ("blockIdx", "threadIdx") for axis in "xyz"]
    for loop, tag in zip(sch.get_loops(sch.get_sblock("C")), tags, strict=True):
        sch.bind(loop, tag)
    return sch.mod


@pytest.fixture(scope="session")
def cuda_programs() -> SimpleNamespace:
    """GPU programs, made when called. undefined_call: TVM generates it and nvcc refuses it."""
    return SimpleNamespace(
        shared=lambda: module(shared),
        undefined_call=undefined_call,
        two_kernels=two_kernels,
        three_kernels=three_kernels,
        grid=grid,
    )


@contextmanager
def _measuring(mod: IRModule, **settings: Any) -> Iterator[LocalMeasurer]:
    settings = {"threads": 1, "workers": 2, **settings}
    measurer = LocalMeasurer(task=Task("test", mod, TARGET), **settings)
    try:
        yield measurer
    finally:
        measurer.close()


@pytest.fixture(scope="session")
def measuring() -> Callable[..., AbstractContextManager[LocalMeasurer]]:
    """`with measuring(module, **settings) as measurer`."""
    return _measuring
