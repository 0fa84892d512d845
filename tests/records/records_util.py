"""Small data sets whose rows are of real spaces."""

import json

import numpy as np
import tvm_ffi
from tvm.target import Target

from pruner.records.dataset import NO_ROW, Dataset, RecordedTask, object_column
from pruner.records.storage import DTYPES
from pruner.search.space import Space
from pruner.workload import load_task

TARGET = Target({"kind": "llvm", "num-cores": 2})


def made(n=6, *, name="GMM/0", device="cpu", seed=0):
    """n records of an operator, the second one a failure, latencies below 1 s."""
    space = Space.of(load_task(name, TARGET))
    rng = np.random.default_rng(seed)
    rows = space.sample_legal(n, rng)
    failed = np.arange(n) == 1
    signatures = tuple(sketch.signature for sketch in space.sketches)
    return Dataset(
        (RecordedTask(name, space.task.mod, space.task.target, 2.0, signatures),),
        task=np.zeros(n, dtype=np.int64),
        sketch_ids=rows.sketch_ids,
        decisions=rows.decisions,
        traces=object_column([None] * n),
        latency_s=np.where(failed, np.nan, rng.random(n)),
        spread_s=np.full(n, np.nan),
        failure=np.where(failed, "run", ""),
        cost_s=np.full(n, np.nan),
        order=np.arange(n),
        device=np.full(n, device),
    )


def untranslated(dataset, position):
    """With a trace that TVM refuses in place of one record's row."""
    columns = {name: getattr(dataset, name).copy() for name in DTYPES}
    columns["sketch_ids"][position] = NO_ROW
    columns["decisions"][position] = -9
    columns["traces"][position] = json.dumps([[["GetSBlock", [], ["nowhere", "main"], ["b0"]]], []])
    return Dataset(dataset.tasks, **columns)


def assert_equal(one, other, but=()):
    """Data sets are equal, columns in `but` and the order of sketches aside."""
    assert [task.id for task in one.tasks] == [task.id for task in other.tasks]
    for mine, theirs in zip(one.tasks, other.tasks, strict=True):
        assert tvm_ffi.structural_equal(mine.mod, theirs.mod)
        assert dict(mine.target.export()) == dict(theirs.target.export())
    for name in DTYPES:
        if name not in (*but, "sketch_ids", "decisions"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
    assert signatures(one) == signatures(other)
    width = min(one.decisions.shape[1], other.decisions.shape[1])
    np.testing.assert_array_equal(one.decisions[:, :width], other.decisions[:, :width])


def signatures(dataset):
    """Of each record's sketch, None without a row."""
    pairs = zip(dataset.task.tolist(), dataset.sketch_ids.tolist(), strict=True)
    return [None if sketch == NO_ROW else dataset.tasks[task].sketches[sketch] for task, sketch in pairs]
