"""The reference reader against index values enumerated from the program itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from nest_util import CUDA, TARGET, analyses, computed, random_rows, replay, workload
from numpy.typing import NDArray
from tvm import te, tirx
from tvm.ir import Expr, Var
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.target import Target
from tvm.tirx import For, SeqStmt, Stmt

from pruner.search.symbolic.body import read_body
from pruner.search.tir_reader import read_nest

POINTS = 20_000  # a footprint with more index values is not enumerated


def evaluate(expr: Expr, env: dict[Var, NDArray[np.int64]]) -> NDArray[np.int64]:
    match expr:
        case tirx.IntImm():
            return np.int64(expr.value)
        case Var():
            return env[expr]
        case tirx.Cast():
            return evaluate(expr.value, env)
    a, b = evaluate(expr.a, env), evaluate(expr.b, env)
    match expr:
        case tirx.Add():
            return a + b
        case tirx.Sub():
            return a - b
        case tirx.Mul():
            return a * b
        case tirx.FloorDiv():
            return a // b
        case tirx.FloorMod():
            return a % b
    raise AssertionError(expr)


def blocks(stmt: Stmt, loops: tuple[For, ...] = ()) -> Iterator[tuple[SBlockRealize, tuple[For, ...]]]:
    match stmt:
        case For():
            yield from blocks(stmt.body, (*loops, stmt))
        case SeqStmt():
            for part in stmt.seq:
                yield from blocks(part, loops)
        case SBlockRealize():
            yield stmt, loops


def enumerated_widths(realize: SBlockRealize, loops: tuple[For, ...], depth: int) -> list[list[int]]:
    """Per access and dimension, the touched range while the loops from `depth` on run."""
    block: SBlock = realize.block
    sizes = [int(loop.extent) for loop in loops[depth:]]
    grid = [axis.ravel() for axis in np.meshgrid(*map(np.arange, sizes), indexing="ij")] if sizes else []
    env: dict[Var, NDArray[np.int64]] = {loop.loop_var: np.zeros(1, np.int64) for loop in loops[:depth]}
    env.update({loop.loop_var: values for loop, values in zip(loops[depth:], grid, strict=True)})
    for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
        env[axis.var] = evaluate(value, env)
    body = read_body(block)
    result = []
    for touch in (*body.reads, *body.writes):
        values = [np.atleast_1d(evaluate(index, env)) for index in touch.indices]
        dims = [int(dim) for dim in touch.buffer.shape]
        result.append([min(int(v.max() - v.min()) + 1, dim) for v, dim in zip(values, dims, strict=True)])
    return result


def compare(mod: object) -> int:
    func = mod["main"]  # type: ignore[index]
    found = list(blocks(func.body.block.body))
    nest = read_nest(func)
    assert len(found) == len(nest.statements)
    checked = 0
    for (realize, loops), statement in zip(found, nest.statements, strict=True):
        assert [loop.extent for loop in statement.loops] == [int(loop.extent) for loop in loops]
        accesses = (*statement.reads, *statement.writes)
        for depth in range(len(loops) + 1):
            if np.prod([int(loop.extent) for loop in loops[depth:]]) > POINTS:
                continue
            expected = enumerated_widths(realize, loops, depth)
            for access, widths in zip(accesses, expected, strict=True):
                relaxed = statement.loops[depth:]
                assert list(access.widths(relaxed)) == widths, (statement.name, access.buffer.name, depth)
                assert access.footprint(relaxed) == np.prod(widths)
                checked += 1
    return checked


SMALL = {
    "conv": lambda: te_workload.conv2d_nhwc(1, 7, 9, 6, 8, 3, 2, 1),
    "transposed": lambda: te_workload.conv2d_transpose_nhwc(1, 4, 4, 4, 6, 4, 2, 1),
    "grouped": lambda: te_workload.conv2d_nhwc(1, 6, 6, 8, 12, 3, 1, 1, 1, 4),
    "norm": lambda: te_workload.norm_bmn(2, 12, 18),
    "softmax": lambda: te_workload.softmax_mn(6, 20),
}


@pytest.mark.parametrize("target", [TARGET, CUDA], ids=["llvm", "cuda"])
@pytest.mark.parametrize("name", SMALL)
def test_widths_equal_enumerated_indices(name: str, target: Target) -> None:
    tuned = computed(*SMALL[name](), target=target)
    rng = np.random.default_rng(3)
    assert compare(tuned.mod) > 0
    for sketch, analysis in analyses(tuned):
        rows = analysis.resolve(random_rows(sketch, 8, rng))
        # A loop whose extent depends on outer loops has no size to enumerate.
        for row in rows[analysis.legal(rows)["dynamic_loop"]]:
            assert compare(replay(tuned, sketch, row).mod) > 0


def test_convolution_has_the_tree_its_program_has() -> None:
    nest = read_nest(workload("C2D/0").mod)
    pad, conv = nest.statements
    assert [loop.extent for loop in pad.loops] == [1, 230, 230, 3]
    assert (pad.ops, pad.has_init) == ({"select": 1}, False)
    assert (conv.ops, conv.has_init) == ({"add": 1, "mul": 1}, True)
    assert [loop.name for loop in conv.loops if loop in conv.reduces] == ["rh", "rw", "rc"]
    data, weight = conv.reads
    assert [data.stride(loop) for loop in conv.loops] == [230 * 230 * 3, 1380, 6, 0, 690, 3, 1]
    assert [weight.indexed_by(loop) for loop in conv.loops] == [False, False, False, True, True, True, True]
    assert data.buffer is pad.writes[0].buffer
    assert (data.buffer.argument, weight.buffer.argument) == (False, True)
    assert conv.instances == 112 * 112 * 64 * 7 * 7 * 3


def test_what_a_gpu_schedule_says_of_its_loops_and_fetches() -> None:
    tuned = workload("GMM/0", CUDA)
    schedule = Schedule(tuned.mod, seed=1)
    block = schedule.get_sblock("Z")
    _, i, j, k = schedule.get_loops(block)
    outer, inner = schedule.split(k, [16, 8])
    schedule.reorder(i, j, outer, inner)
    schedule.bind(i, "blockIdx.x")
    schedule.bind(j, "threadIdx.x")
    for operand, lanes in ((0, 3), (1, 1)):
        copy = schedule.cache_read(block, operand, "shared")
        schedule.compute_at(copy, outer, preserve_unit_loops=True)
        schedule.annotate(copy, "meta_schedule.cooperative_fetch", lanes)
    schedule.annotate(outer, "software_pipeline_stage", [0, 0, 2])
    first, second, product = read_nest(schedule).statements
    assert [s.fetch for s in (first, second, product)] == [3, 1, 0]
    assert [loop.kind for loop in product.loops] == [
        "serial",
        "blockIdx.x",
        "threadIdx.x",
        "serial",
        "serial",
    ]
    stages = [loop.annotations.get("software_pipeline_stage") for loop in product.loops]
    assert stages == [None, None, None, (0, 0, 2), None]
    assert [read.buffer.scope for read in product.reads] == ["shared", "shared"]
    # All 128 threads read the same row of X and columns of their own of Y, eight steps at a time.
    assert [s.instances // (128 * 128 * 16) for s in (first, second)] == [8, 8 * 128]


def test_floor_indices_move_when_their_division_does() -> None:
    a = te.placeholder((6, 8), name="a")
    b = te.compute((48,), lambda i: a[i // 8, i % 8] + 1.0, name="b")
    (statement,) = read_nest(computed(a, b).mod).statements
    (loop,) = statement.loops
    (read,) = statement.reads
    assert (read.indexed_by(loop), read.stride(loop)) == (True, 1)
    assert (read.widths({loop}), read.widths(())) == ((6, 8), (1, 1))
