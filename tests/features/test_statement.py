"""StatementFeatures: TVM's own numbers, in order, under names that mean what they say."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from pruner.analyzer.device import Device
from pruner.errors import RejectedError
from pruner.features.statement import StatementFeatures
from pruner.search.candidate import Candidate, TraceCandidate
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import Task, load_task

TARGET = {"kind": "llvm", "num-cores": 2}


def device(target: dict[str, object] = TARGET) -> Device:
    return Device(
        name="test",
        kind=str(target["kind"]),
        levels=(),
        peak={},
        transaction=64,
        frequency=1e9,
        cores=2,
        target=target,
    )


@pytest.fixture(scope="module")
def task() -> Task:
    return load_task("C2D/0", Target(TARGET))


@pytest.fixture(scope="module")
def rows(task: Task) -> Population:
    return Space.of(task).sample(12, np.random.default_rng(0))


@pytest.mark.parametrize("threads", [1, 3])
def test_equals_tvms_extractor(task: Task, rows: Population, threads: int) -> None:
    batch = StatementFeatures(device=device(), threads=threads).extract(rows)
    theirs = ms.feature_extractor.PerStoreFeature()
    context = ms.TuneContext(mod=task.mod, target=task.target, num_threads=1)
    for i, candidate in enumerate(rows):
        [tensor] = theirs.extract_from(context, [ms.MeasureCandidate(candidate.materialise(), [])])
        ours = batch.values[batch.offsets[i] : batch.offsets[i + 1]]
        np.testing.assert_array_equal(ours, tensor.numpy().astype(np.float32))
    assert (len(batch), batch.name, batch.version) == (12, "statement", 1)
    assert len(set(StatementFeatures.columns)) == batch.values.shape[1] == 164


def test_column_names_mean_what_they_say() -> None:
    task = load_task("GMM/0", Target(TARGET))
    schedule = Schedule(task.mod)
    block = schedule.get_sblock("Z")
    b, i, j, k = schedule.get_loops(block)
    i0, i1 = schedule.split(i, [16, 8])
    j0, j1 = schedule.split(j, [32, 4])
    schedule.reorder(i0, j0, k, i1, j1)
    outer = schedule.fuse(b, i0)
    schedule.parallel(outer)
    schedule.vectorize(j1)
    schedule.annotate(outer, "pragma_auto_unroll_max_step", 512)
    batch = StatementFeatures(device=device()).extract([TraceCandidate.of(task, schedule)])
    [store] = batch.values
    named = dict(zip(StatementFeatures.columns, 2.0 ** store.astype(float) - 1, strict=True))
    instances = 128**3
    for column, expected in {
        "float_mul": instances,
        "float_add_sub": instances,
        "parallel_product": 16,
        "parallel_at_mixed": 1,  # TVM tells no more than none or mixed
        "vectorize_innermost": 4,
        "vectorize_at_mixed": 1,
        "unroll_at_none": 1,
        "is_gpu": 0,
        "outer_product": instances,
        "auto_unroll_max_step": 512,
        "buffer2_is_read_write": 1,
        "buffer2_unique_bytes": 128 * 128 * 4,
        "buffer4_bytes": 0,
    }.items():
        assert named[column] == pytest.approx(expected, rel=1e-4), column


def test_every_column_is_explained() -> None:
    extractor = StatementFeatures(device=device())
    words = {column: extractor.explain(column) for column in extractor.columns}
    assert len(set(words.values())) == 164
    assert words["unroll_product"] == "product of the lengths of the unrolled loops, log2(1 + x)"
    assert words["buffer1_lines"].startswith("2nd buffer of the store, by lines moved: cache lines moved")


def test_buffers_stand_by_lines_moved(rows: Population) -> None:
    named = StatementFeatures.columns
    lines = [named.index(f"buffer{i}_lines") for i in range(5)]
    assert (np.diff(StatementFeatures(device=device()).extract(rows).values[:, lines]) <= 0).all()


def test_a_gpu_is_told_by_the_devices_target(task: Task, rows: Population) -> None:
    batch = StatementFeatures(device=device({"kind": "cuda", "arch": "sm_80"})).extract([rows[0]])
    assert (batch.values[:, StatementFeatures.columns.index("is_gpu")] == 1).all()


def test_no_candidates_give_an_empty_batch() -> None:
    batch = StatementFeatures(device=device()).extract([])
    assert (len(batch), batch.values.shape) == (0, (0, 164))


def test_a_rejected_candidate_is_an_error(rows: Population) -> None:
    class Rejected(Candidate):
        key = b""
        decided = rows[0].decided

        def materialise(self) -> Schedule:
            raise RejectedError("refused")

    with pytest.raises(RejectedError, match="refused"):
        StatementFeatures(device=device()).extract([rows[0], Rejected()])
