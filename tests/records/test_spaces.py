"""From recorded rows back to the programs that they are."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records.dataset import Dataset, RecordedTask, object_column
from pruner.records.spaces import recorded_rows
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import load_task

TARGETS = {
    "llvm": Target({"kind": "llvm", "num-cores": 2}),
    "cuda": Target(
        {
            "kind": "cuda",
            "arch": "sm_80",
            "max_threads_per_block": 1024,
            "max_shared_memory_per_block": 49152,
            "thread_warp_size": 32,
        }
    ),
}


def recorded(rows: Population, sketches: tuple[str, ...]) -> Dataset:
    n = len(rows)
    task = rows.space.task
    return Dataset(
        (RecordedTask(task.name, task.mod, task.target, 1.0, sketches),),
        task=np.zeros(n, dtype=np.int64),
        sketch_ids=rows.sketch_ids,
        decisions=rows.decisions,
        traces=object_column([None] * n),
        latency_s=np.ones(n),
        spread_s=np.full(n, np.nan),
        failure=np.array([""] * n),
        cost_s=np.full(n, np.nan),
        order=np.arange(n),
        device=np.array(["here"] * n),
    )


@pytest.mark.parametrize(("workload", "kind"), [("C2D/0", "llvm"), ("SFM/0", "llvm"), ("C2D/0", "cuda")])
def test_rows_are_the_same_programs_again(workload: str, kind: str) -> None:
    space = Space.of(load_task(workload, TARGETS[kind]))
    rows = space.sample_legal(20, np.random.default_rng(0))
    dataset = recorded(rows, tuple(sketch.signature for sketch in space.sketches))
    found, kept = recorded_rows(dataset)
    assert kept.tolist() == list(range(20))
    for one, other in zip(found, rows, strict=True):
        assert tvm_ffi.structural_equal(one.materialise().mod, other.materialise().mod)


def test_a_sketch_that_tvm_refuses_is_left_out_and_a_task_of_such_alone_is_an_error() -> None:
    space = Space.of(load_task("GMM/0", TARGETS["llvm"]))
    rows = space.sample_legal(20, np.random.default_rng(0))
    names = [sketch.signature for sketch in space.sketches]
    unknown = [name.replace("Split", "Unsplit") for name in names]
    found, kept = recorded_rows(recorded(rows, (unknown[0], *names[1:])))
    assert kept.tolist() == np.flatnonzero(rows.sketch_ids != 0).tolist()
    assert len(found) == len(kept) > 0
    with pytest.raises(ConfigError, match="TVM refuses every one of the 20"):
        recorded_rows(recorded(rows, tuple(unknown)))
