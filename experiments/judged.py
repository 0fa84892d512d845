"""Tasks of a data set as drafts are judged on them: distinct programs that ran, and their device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.config import compose
from pruner.errors import ConfigError
from pruner.placement import seen_by
from pruner.records.dataset import Dataset, RecordedTask
from pruner.records.spaces import recorded_rows
from pruner.search.population import Population
from pruner.search.tir_reader import read_nest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DIRECT, WINOGRAD, OTHER = "direct", "winograd", "other"


@dataclass(frozen=True, eq=False)
class Judged:
    """The n distinct programs of a task that ran.

    latency_s: float64[n], of a program that was recorded several times the mean. slow: rows that must be
    replayed one by one. unscored: valid records that are no row of any space, left out. device: as
    the task's programs see it.
    """

    name: str
    group: str
    weight: float
    device: Device
    rows: Population
    latency_s: Floats
    slow: int
    unscored: int


def named_device(name: str) -> Device:
    """The device of an option of `pruner tune`. Raises ConfigError for another name."""
    return Device.of(compose(["workload=GMM/0", f"device={name}"]).device)


def judged(records: Dataset, device: Device) -> Judged | None:
    """The task of a data set with one task; None when none of its programs ran, or TVM refuses them all."""
    records = records[records.failure == ""]
    if not len(records):
        return None
    task = records.tasks[0]
    seen = seen_by(device, task.target, task.id)
    try:
        rows, kept = recorded_rows(records)
    except ConfigError:  # TVM refuses them all
        return None
    first, latency = distinct(rows, records.latency_s[kept])
    rows = rows[first]
    supported = np.array(rows.space.supported)
    return Judged(
        task.id,
        group_of(task),
        task.weight,
        seen,
        rows,
        latency,
        int((~supported[rows.sketch_ids]).sum()),
        len(records) - len(kept),
    )


def distinct(rows: Population, latency_s: Floats) -> tuple[Ints, Floats]:
    """Where each of m distinct programs is first, ascending int64[m], and the mean of its latencies,
    float64[m]; a failure's is NaN and does not count beside others."""
    _, first, same = np.unique(rows.hashes(), return_index=True, return_inverse=True)
    ran = ~np.isnan(latency_s)
    counts = np.bincount(same, weights=ran)
    sums = np.bincount(same, weights=np.where(ran, latency_s, 0.0))
    latency = np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
    order = np.argsort(first)
    return first[order], latency[order]


def group_of(task: RecordedTask) -> str:
    """Convolutions are `direct` or `winograd`, all else is `other`, by the names of the program's blocks."""
    names = {statement.name for statement in read_nest(task.mod).statements}
    if "bgemm" in names:
        return WINOGRAD
    return DIRECT if any("conv" in name.lower() for name in names) else OTHER
