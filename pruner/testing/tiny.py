"""Small tasks, and records of them with made-up latencies, that the suites give to components."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
from numpy.typing import NDArray
from tvm import te
from tvm.target import Target
from tvm.tirx import PrimFunc

from pruner.analyzer.device import Device
from pruner.analyzer.draft import draft_scores
from pruner.analyzer.roofline import RooflineDraft
from pruner.costmodel.history import History
from pruner.costmodel.verifier import TrainingSet, Verifier
from pruner.errors import RejectedError
from pruner.features.batch import FeatureBatch
from pruner.features.make import make_extractors
from pruner.measure.measurement import Measurement
from pruner.placement import placed
from pruner.records.database import plain
from pruner.search.materialise import materialise_many
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import Task, make_task

# Edges of the products whose records are the two tasks of a training set, and of one never trained on.
TASKS = (32, 64)
UNSEEN = 48
# Of one whose space is measured to its end.
TINIEST = 2
# Records of a task.
RECORDS = 48
# The share of a task's records, the slowest ones, that are made to fail where failures are asked for.
FAILING = 0.3
# Standard deviation of the logarithm of what is no formula in a made-up latency.
NOISE = 0.1


def product(edge: int) -> PrimFunc:
    """A float32 matrix product of `edge` cubed, and a ReLU."""
    a, b = (te.placeholder((edge, edge), "float32", name=name) for name in "AB")
    k = te.reduce_axis((0, edge), name="k")
    c = te.compute((edge, edge), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((edge, edge), lambda i, j: te.max(c[i, j], te.const(0.0, "float32")), name="D")
    return te.create_prim_func([a, b, d])


def task(device: Device, edge: int) -> Task:
    """The product on the device's own target."""
    return placed(device, None, lambda target: make_task(product(edge), target, f"product{edge}"))[1]


def space(device: Device, edge: int) -> Space:
    """The product's space, made once."""
    return _space(json.dumps(plain(task(device, edge).target.export())), edge)


@cache
def _space(target: str, edge: int) -> Space:
    return Space.of(make_task(product(edge), Target(json.loads(target)), f"product{edge}"))


@cache
def programs(space: Space, n: int) -> Population:
    """n distinct rows that TVM accepts, fewer in a space that has not so many."""
    rows = space.unique(space.sample_legal(4 * n, np.random.default_rng(0)))[: 2 * n]
    made = materialise_many(list(rows))
    accepted = np.array([not isinstance(one, RejectedError) for one in made])
    return rows[accepted][:n]


def latencies(device: Device, rows: Population) -> NDArray[np.float64]:
    """Seconds that a made-up machine takes: what `roofline` says, and some noise that follows the row."""
    noise = [np.random.default_rng(int(one)).normal(0, NOISE) for one in rows.hashes()]
    return draft_scores(RooflineDraft(device=device), rows) * np.exp(noise)


# Training sets by target, device, features and whether some fail: extracting takes longer than fitting.
_made: dict[tuple[str, str, tuple[str, ...], bool], TrainingSet] = {}


def training_set(device: Device, features: tuple[str, ...], *, failing: bool = False) -> TrainingSet:
    """RECORDS of each of TASKS; with `failing`, the slowest FAILING of each failed. The caller's own."""
    key = json.dumps(plain(device.target)), device.name, features, failing
    if key not in _made:
        history = History(make_extractors(features, device))
        for number, edge in enumerate(TASKS):
            history.add(_records(device, programs(space(device, edge), RECORDS), failing), number)
        _made[key] = history.training_set()
    return selected(_made[key], np.arange(len(_made[key])))


def _records(device: Device, rows: Population, failing: bool) -> list[Measurement]:
    seconds = latencies(device, rows)
    worst = np.quantile(seconds, 1 - FAILING) if failing else np.inf
    return [
        Measurement(candidate, None, None, 0.1, 0.1, "run", "made up")
        if second > worst
        else Measurement(candidate, float(second), 0.0, 0.1, 0.1)
        for candidate, second in zip(rows, seconds, strict=True)
    ]


def unseen(device: Device, features: tuple[str, ...], n: int = 20) -> dict[str, FeatureBatch]:
    """Features of n candidates of another task."""
    rows = list(programs(space(device, UNSEEN), n))
    return {name: one.extract(rows) for name, one in make_extractors(features, device).items()}


def selected(records: TrainingSet, positions: NDArray[np.int64]) -> TrainingSet:
    """The records at these positions, in this order."""
    return TrainingSet(
        {name: batch.take(positions) for name, batch in records.features.items()},
        records.labels[positions],
        records.group[positions],
        records.order[positions],
    )


def odd_training_sets(records: TrainingSet) -> dict[str, TrainingSet]:
    """Sets that teach nothing, by what they are."""
    first = np.flatnonzero(records.group == records.group[0])
    failed = selected(records, first)
    failed = TrainingSet(failed.features, np.zeros(len(failed)), failed.group, failed.order)
    return {
        "no record": selected(records, first[:0]),
        "one record": selected(records, first[:1]),
        "one candidate again and again": selected(records, first[:1].repeat(5)),
        "failures only": failed,
    }


def taught(verifier: Verifier, device: Device) -> Verifier:
    """The verifier, fitted on `training_set`."""
    verifier.fit(training_set(device, verifier.features))
    return verifier
