"""Legality on a GPU by reason, both ways: what is accepted, and what each single reason refuses."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import shared_bytes
from nest_util import CUDA, computed, postprocess, replay, sketches, workload
from numpy.typing import NDArray
from test_analysis import FAMILIES, ODD, TENSORISED
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from pruner.search.analysis import SketchAnalysis
from pruner.search.operators import Operators
from pruner.search.sketch import Sketch, TileGene
from pruner.search.symbolic import legality
from pruner.search.symbolic.legality import REASONS
from pruner.search.symbolic.program import parse_program
from pruner.search.symbolic.replay import State
from pruner.search.symbolic.tape import Tape
from pruner.search.symbolic.tree import Replay

DRAWN = 30_000


def predicted_bytes(tuned: ms.TuneContext, sketch: Sketch, rows: NDArray[np.int64]) -> list[list[int]]:
    """Bytes of shared memory by kernel of every row, in ascending order."""
    state = State(parse_program(tuned.mod), {})
    Replay(sketch).advance(state, None)
    placed = [(block, state.program.loops(block)) for block, _ in state.program.blocks()]
    tape = Tape()
    slots = [tape.slot(legality.shared_bytes(kernel)) for kernel in legality.kernels(placed)]
    values = tape.run(np.ascontiguousarray(rows.T))
    table = np.array([np.broadcast_to(values[slot], len(rows)) for slot in slots])
    return [sorted(column.tolist()) for column in table.T]


def strata(sketch: Sketch, analysis: SketchAnalysis, n: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """Up to n random rows that are legal, and up to n that each reason alone refuses."""
    rows = np.unique(Operators(sketch, []).sample(DRAWN, np.random.default_rng(seed)), axis=0)
    rows = rows[np.random.default_rng(seed).permutation(len(rows))]
    passes = analysis.legal(rows)
    refusals = np.sum([~accepted for accepted in passes.values()], axis=0)
    assert np.array_equal(analysis.accepts(rows), refusals == 0)
    found = {"": rows[refusals == 0][:n]}
    for reason, accepted in passes.items():
        found[reason] = rows[~accepted & (refusals == 1)][:n]
    return found


def check_verdicts(tuned: ms.TuneContext, n: int, seed: int) -> dict[str, int]:
    """Every verdict is TVM's, and so are the bytes of shared memory; returns how many rows were tried."""
    tried = dict.fromkeys(("", *REASONS), 0)
    for sketch in sketches(tuned):
        analysis = SketchAnalysis(tuned.mod, sketch, tuned.target)
        for reason, rows in strata(sketch, analysis, n, seed).items():
            sizes = predicted_bytes(tuned, sketch, rows) if len(rows) else []
            for row, expected in zip(rows, sizes, strict=True):
                schedule = replay(tuned, sketch, row)
                refusal = postprocess(tuned, schedule.copy())
                assert (refusal == "") == (reason == ""), (row.tolist(), reason, refusal)
                assert (refusal == "DisallowDynamicLoop") == (reason == "dynamic_loop")
                if reason in ("", "shared_memory"):
                    assert shared_bytes(tuned, schedule) == expected, row.tolist()
                tried[reason] += 1
    return tried


@pytest.mark.parametrize("family", ["C2D", "GRP", "T2D", "DEP"])
def test_verdicts_and_shared_bytes_are_those_of_tvm(family: str) -> None:
    tried = check_verdicts(workload(f"{family}/0", CUDA), 3, 1)
    assert min(tried[reason] for reason in ("", "threads", "shared_memory")) == 9
    assert tried["dynamic_loop"] == (9 if family == "T2D" else 0)
    assert tried["pipeline"] == (6 if family in ("C2D", "DEP") else tried["pipeline"])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_many_verdicts_are_those_of_tvm(family: str) -> None:
    tried = check_verdicts(workload(f"{family}/1", CUDA), 20, 2)
    assert tried[""] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ODD) - TENSORISED))
def test_many_verdicts_on_odd_programs_are_those_of_tvm(name: str) -> None:
    check_verdicts(computed(*ODD[name](), target=CUDA), 8, 3)


def grouped(batch: int, outputs: int, per_group: int, inputs: int, *, batch_first: bool) -> ms.TuneContext:
    """Each `per_group` outputs sum over `inputs` inputs of their own."""
    x = te.placeholder((batch, outputs // per_group * inputs), name="x")
    w, r = te.placeholder((outputs, inputs), name="w"), te.reduce_axis((0, inputs), name="r")

    def entry(n: te.Var, o: te.Var) -> te.Expr:
        return te.sum(x[n, o // per_group * inputs + r] * w[o, r], axis=r)

    shape = (batch, outputs) if batch_first else (outputs, batch)
    y = te.compute(shape, lambda a, b: entry(a, b) if batch_first else entry(b, a), name="y")
    return computed(x, w, y, target=CUDA)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("sizes", [(16, 128, 32, 16), (12, 36, 12, 4), (8, 60, 20, 10), (8, 64, 16, 1)])
def test_shared_bytes_of_parts_of_groups(sizes: tuple[int, int, int, int], batch_first: bool) -> None:
    """A thread block with a part of a group: TVM may allocate more than is read."""
    tuned = grouped(*sizes, batch_first=batch_first)
    sketch = sketches(tuned)[0]
    batch, outputs, inputs = (gene for gene in sketch.genes if isinstance(gene, TileGene))
    if not batch_first:
        batch, outputs = outputs, batch
    rng = np.random.default_rng(4)
    rows = Operators(sketch, []).sample(4000, rng)
    own = outputs.extent // rows[:, outputs.start]
    part = (own < sizes[2]) & (sizes[2] % own == 0) & (rows[:, inputs.start] == 1)
    part &= SketchAnalysis(tuned.mod, sketch, CUDA).legal(rows)["dynamic_loop"]
    # One output a thread block is the plainest kind of part: a few of those, many of the others.
    rows = np.concatenate([rows[part & (own > 1)][:25], rows[part & (own == 1)][:5]])
    read = sizes[3] * np.prod(rows[:, batch.start + 1 : batch.start + batch.parts], axis=1)
    wider = 0
    for row, expected, least in zip(rows, predicted_bytes(tuned, sketch, rows), read, strict=True):
        assert shared_bytes(tuned, replay(tuned, sketch, row)) == expected, row.tolist()
        weights = sizes[3] * np.prod(row[outputs.start + 1 : outputs.start + outputs.parts])
        wider += expected[0] > 4 * (least + weights)
    assert 0 < wider < len(rows)


def test_the_limits_are_those_of_the_target() -> None:
    target = Target(
        {
            "kind": "cuda",
            "arch": "sm_86",
            "max_threads_per_block": 512,
            "max_shared_memory_per_block": 8192,
            "thread_warp_size": 32,
        }
    )
    tuned = workload("GMM/0", target)
    tried = check_verdicts(tuned, 6, 5)
    assert tried["shared_memory"] > 0
    rows = Operators(sketches(tuned)[0], []).sample(DRAWN, np.random.default_rng(6))
    analysis = SketchAnalysis(tuned.mod, sketches(tuned)[0], target)
    wide = SketchAnalysis(tuned.mod, sketches(tuned)[0], CUDA)
    assert analysis.accepts(rows).sum() < wide.accepts(rows).sum()


def test_a_cpu_has_no_such_limits() -> None:
    tuned = workload("GMM/0")
    for sketch in sketches(tuned):
        analysis = SketchAnalysis(tuned.mod, sketch, tuned.target)
        rows = Operators(sketch, []).sample(200, np.random.default_rng(7))
        assert all(passes.all() for passes in analysis.legal(rows).values())
