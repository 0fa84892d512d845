"""Small programs to measure, and candidates made by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from tvm import te
from tvm.ir import IRModule
from tvm.s_tir import Schedule
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
