"""Records that nobody measured."""

import numpy as np
from tvm.target import Target

from pruner.analyzer.device import Device
from pruner.records.dataset import Dataset, RecordedTask, object_column
from pruner.search.space import Space

CUDA = Target(Device.load("a100-40g").target)
WEIGHTS = {"C2D/0": 3.0, "GMM/0": 1.0}


def records(task, n, seed, *, device="a100", id=None, latency=None):
    """n legal rows of a task with made-up latencies, every fifth of them a failure, the last two a repetition
    of the first two; and the space they are from. latency: gives those of a population, seconds."""
    space = Space.of(task)
    rng = np.random.default_rng(seed)
    rows = space.unique(space.sample_legal(4 * n, rng))[: n - 2]
    chosen = np.r_[np.arange(n - 2), 1, 2]
    latencies = np.exp(rng.normal(size=n)) * 1e-4 if latency is None else latency(rows[chosen])
    failed = np.arange(n) % 5 == 0
    latencies[failed] = np.nan
    signatures = tuple(sketch.signature for sketch in space.sketches)
    dataset = Dataset(
        (RecordedTask(id or task.name, task.mod, task.target, WEIGHTS.get(task.name, 1.0), signatures),),
        task=np.zeros(n, dtype=np.int64),
        sketch_ids=rows.sketch_ids[chosen],
        decisions=rows.decisions[chosen],
        traces=object_column([None] * n),
        latency_s=latencies,
        spread_s=np.full(n, np.nan),
        failure=np.where(failed, "run", ""),
        cost_s=np.full(n, np.nan),
        order=np.arange(n),
        device=np.array([device] * n),
    )
    return dataset, space
