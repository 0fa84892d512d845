"""Reading and compiling a program."""

from __future__ import annotations

import pytest
from tvm import te
from tvm.script import tirx as T

from pruner.measure.build import build
from pruner.measure.program import (
    Argument,
    arguments_of,
    reduction_length,
    written_arguments,
    written_dtypes,
)


@T.prim_func(s_tir=True)
def in_place(A: T.Buffer((4,), "float32"), n: T.int32, B: T.Buffer((0, 4), "float32")):
    for i in range(4):
        with T.sblock("A"):
            v = T.axis.spatial(4, i)
            A[v] = A[v] * T.float32(2) + T.Cast("float32", n)


@T.prim_func(s_tir=True)
def through_a_view(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2):
        with T.sblock("B"):
            v = T.axis.spatial(2, i)
            T.reads(A[v * 4 : v * 4 + 4])
            T.writes(B[v * 4 : v * 4 + 4])
            source = T.match_buffer(A[v * 4 : v * 4 + 4], (4,), "float32", offset_factor=1)
            sink = T.match_buffer(B[v * 4 : v * 4 + 4], (4,), "float32", offset_factor=1)
            for j in range(4):
                sink[j] = source[j]


@T.prim_func(s_tir=True)
def symbolic(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        with T.sblock("A"):
            v = T.axis.spatial(n, i)
            A[v] = T.float32(0)


def test_arguments_and_outputs(programs):
    mod = programs.module(in_place)
    assert arguments_of(mod) == (
        Argument((4,), "float32"),
        Argument(None, "int32"),
        Argument((0, 4), "float32"),
    )
    assert written_arguments(mod["main"]) == (0,)
    assert written_arguments(through_a_view) == (1,)
    assert written_arguments(programs.matmul()["main"]) == (2,)
    with pytest.raises(ValueError, match="symbolic"):
        arguments_of(programs.module(symbolic))


def test_reduction_length_and_types(programs):
    assert reduction_length(programs.matmul(48)["main"]) == 48
    assert reduction_length(programs.copy["main"]) == 1
    assert written_dtypes(programs.copy["main"]) == {"int32"}


def test_a_layout_rewrite_changes_the_arguments_only_for_timing(programs):
    a = te.placeholder((16, 16), "float32", name="A")
    b = te.placeholder((16, 16), "float32", name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute(
        (16, 16),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        name="C",
        attrs={"layout_free_placeholders": [b]},
    )
    candidate = programs.tiled(programs.module(te.create_prim_func([a, b, c])), 4)
    sch = candidate.schedule
    block = sch.get_sblock("C")
    rewrite = sch.cache_read(block, 1, "global")
    sch.transform_layout(block, ("read", 1), lambda p, q: (q // 4, p, q % 4))
    sch.annotate(rewrite, "meta_schedule.layout_rewrite_preproc", True)
    timed = build(sch.mod, programs.target)
    compared = build(sch.mod, programs.target, rewrite_layouts=False)
    assert timed.arguments[1].shape == (4, 16, 4)
    assert compared.arguments[1].shape == (16, 16)
    assert timed.rewritten
    assert not compared.rewritten
