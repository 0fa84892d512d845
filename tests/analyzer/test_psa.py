"""The released code's formula against a literal walk over the program that TVM makes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from tvm import tirx
from tvm.ir import Call, Expr, TensorLoad, Var
from tvm.s_tir import SBlockRealize

from pruner.analyzer.device import Device
from pruner.analyzer.psa import RELEASED, Figures, PsaDraft
from pruner.errors import ConfigError
from tests.analyzer.analyzer_util import DEVICE as CPU
from tests.analyzer.gpu_util import DEVICE, sample, tiled


@dataclass
class Store:
    """The last store into a buffer, with the loops around it: variable, extent, thread tag or ''."""

    store: tirx.BufferStore
    loops: list[tuple[Var, int, str]]
    bound: dict[Var, object]


def stores(node: object, loops: list[tuple[Var, int, str]], bound: dict[Var, object]) -> Iterator[Store]:
    match node:
        case tirx.For():
            tag = str(node.thread_binding.thread_tag) if node.thread_binding is not None else ""
            yield from stores(node.body, [*loops, (node.loop_var, int(node.extent), tag)], bound)
        case tirx.SeqStmt():
            for part in node.seq:
                yield from stores(part, loops, bound)
        case SBlockRealize():
            values = dict(zip([axis.var for axis in node.block.iter_vars], node.iter_values, strict=True))
            yield from stores(node.block.body, loops, bound | values)
        case tirx.BufferStore():
            yield Store(node, loops, bound)
        case tirx.IfThenElse():
            yield from stores(node.then_case, loops, bound)
        case _:
            yield from stores(node.body, loops, bound)


def parts(expr: object) -> list[object]:
    if isinstance(expr, TensorLoad):
        return list(expr.indices)
    if isinstance(expr, Call):
        return list(expr.args)
    names = ("a", "b", "value", "condition", "true_value", "false_value")
    return [part for name in names if isinstance(part := getattr(expr, name, None), Expr)]


def value(expr: object, point: dict[Var, int], bound: dict[Var, object]) -> int:
    if isinstance(expr, Var):
        return value(bound[expr], point, bound) if expr in bound else point[expr]
    match expr:
        case tirx.Add():
            return value(expr.a, point, bound) + value(expr.b, point, bound)
        case tirx.Sub():
            return value(expr.a, point, bound) - value(expr.b, point, bound)
        case tirx.Mul():
            return value(expr.a, point, bound) * value(expr.b, point, bound)
        case tirx.FloorDiv():
            return value(expr.a, point, bound) // value(expr.b, point, bound)
        case tirx.FloorMod():
            return value(expr.a, point, bound) % value(expr.b, point, bound)
    return int(expr)  # type: ignore[call-overload]


def moving(s: Store, indices: object) -> set[Var]:
    """The loops that move an access: not those in terms that are always zero (a group's number, say)."""
    lowest, highest = {v: 0 for v, _, _ in s.loops}, {v: e - 1 for v, e, _ in s.loops}
    return {
        v
        for v, extent, _ in s.loops
        for index in indices  # type: ignore[attr-defined]
        for base in (lowest, highest)
        if len({value(index, base | {v: i}, s.bound) for i in range(extent)}) > 1
    }


def loads(expr: object) -> list[TensorLoad]:
    own = [expr] if isinstance(expr, TensorLoad) else []
    return own + [load for part in parts(expr) for load in loads(part)]


def flops(expr: object) -> int:
    """Floating-point additions, multiplications and divisions; comparisons and calls are none."""
    counted = isinstance(expr, (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod))
    own = counted and str(expr.ty.dtype).startswith("float")
    return own + sum(flops(part) for part in parts(expr))


def milliseconds(func: tirx.PrimFunc, peak: float, bandwidth: float, multiprocessors: int) -> float:
    """feature_psa.cc and psa_model.py, step by step."""
    last = {s.store.buffer: s for s in stores(func.body, [], {})}
    cost = 0.0
    for s in last.values():
        grid = math.prod(e for _, e, tag in s.loops if tag.startswith("blockIdx"))
        # A fetch is bound to the threads of its block a second time.
        threads = max((e for _, e, tag in s.loops if tag.startswith("threadIdx")), default=1)
        serial = [(v, e) for v, e, tag in s.loops if not tag.startswith(("blockIdx", "threadIdx"))]
        inner = math.prod(e for _, e in serial)
        work = inner * flops(s.store.value)
        accesses = {s.store.buffer: [s.store.indices]}
        for load in loads(s.store.value):
            if load.source != s.store.buffer:
                accesses.setdefault(load.source, []).append(load.indices)
        used = {
            buffer: set().union(*(moving(s, indices) for indices in all_))
            for buffer, all_ in accesses.items()
        }
        axes = [(v, e) for v, e in serial if v in used[s.store.buffer]]
        registers = touched = traffic = 0
        if work:
            for seen in used.values():
                registers += math.prod(e for v, e in axes if v in seen)
                touched += math.prod(e for v, e in serial if v in seen)
        elif str(s.store.buffer.scope()).startswith("shared"):
            traffic = math.prod(e for _, e in axes) * threads * grid
        else:
            traffic = inner * grid * threads
        reuse = 1 + (work / touched if work else 0)
        warps = math.ceil(threads / 32)
        if grid >= multiprocessors:
            n, units = grid, multiprocessors
        else:
            n, units = grid * min(warps, 4), 4 * multiprocessors
        peak_penalty = n / (math.ceil(n / units) * units)
        throughput = peak * peak_penalty * (threads / 32 / warps) / max(1, registers / 128)
        compute = work * grid * threads * (1 + 1 / reuse) / throughput / 1e6
        memory = traffic / bandwidth * 1000 / 2**30
        cost += max(compute, memory)
    return cost


@pytest.mark.parametrize("workload", ["GMM/0", "C2D/0", "CBR/0", "SFM/0", "DEP/0"])
@pytest.mark.parametrize("device", ["a100-40g", "k80"])
def test_scores_are_those_of_a_walk_over_the_program(workload: str, device: str) -> None:
    model = PsaDraft(device=dataclasses.replace(DEVICE, name=device))
    figures = model.figures
    rows = sample(workload, 60, seed=7)
    scores = model.score(rows)
    rows, scores = rows[np.isfinite(scores)][:12], scores[np.isfinite(scores)][:12]
    for row, score in enumerate(scores):
        func = rows[row].materialise().mod["main"]
        truth = milliseconds(func, figures.peak, figures.bandwidth, figures.multiprocessors)
        assert score == pytest.approx(truth * 1e-3, rel=1e-9), row


def test_figures_are_the_released_ones_or_the_devices_own() -> None:
    assert {name: dataclasses.astuple(f) for name, f in RELEASED.items()} == {
        "k80": (8226, 480, 26),
        "t4": (8141, 320, 40),
        "titan-v": (14900, 651, 80),
        "orin-agx": (2660, 204, 16),
        "a100-40g": (19490, 1555, 108),
        "a100-80g": (19490, 1935, 108),
    }
    for name in ("t4", "titan-v", "a100-40g", "a100-80g"):
        ours = PsaDraft(device=Device.load(name), released=False).figures
        assert dataclasses.astuple(ours) == pytest.approx(dataclasses.astuple(RELEASED[name]), rel=5e-3)
    # One GPU of the two on a K80's board; all lanes of an Orin.
    assert PsaDraft(device=Device.load("k80"), released=False).figures.multiprocessors == 13
    assert PsaDraft(device=Device.load("k80")).figures == Figures(8226, 480, 26)
    assert PsaDraft(device=Device.load("h100")).figures.multiprocessors == 132


def test_the_peak_term_by_hand() -> None:
    """Eight blocks of four warps on 108 multiprocessors use 32 of 432 parts."""
    rows = tiled([4, 2, 8, 2, 1], [2, 2, 16, 1, 2], [8, 4, 4])
    whole = PsaDraft(device=DEVICE).score(rows)[0]
    without = PsaDraft(device=DEVICE, penalties="no_l2_compute").score(rows)[0]
    assert whole > without
    compute = 2 * 128**3 * (1 + 1 / (1 + 4096 / (16 + 4 * 2 * 128 + 4 * 2 * 128))) / 19490e9
    moved = [32 * 16 * 8 * 8, 64 * 16 * 8 * 8, 128 * 128]
    memory = sum(moved) / (1555 * 2**30)
    assert whole == pytest.approx(compute * 432 / 32 + memory)
    assert without == pytest.approx(compute + memory)


def test_a_cpu_has_no_such_formula() -> None:
    with pytest.raises(ConfigError, match=r"psa.*round.*roofline"):
        PsaDraft(device=CPU)
