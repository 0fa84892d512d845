"""Programs of a task with the features that verifiers see."""

from dataclasses import replace

import numpy as np
import pytest
from tvm.target import Target

from experiments import programs
from experiments.programs import task_programs
from pruner.analyzer.device import Device
from pruner.errors import RejectedError
from pruner.features.make import make_extractors
from pruner.records.dataset import Dataset
from pruner.search.population import Population
from pruner.workload import load_task
from tests.experiments.made_up import records

DEVICE = Device.load("x86-64")


@pytest.fixture(scope="module")
def mixed():
    """Legal rows of a transposed convolution, then arbitrary ones, of which TVM refuses some."""
    legal, space = records(load_task("T2D/0", Target(dict(DEVICE.target))), 12, 0)
    legal = legal[:10]
    drawn = space.unique(space.sample(14, np.random.default_rng(1)))
    names = [name for name in Dataset.__dataclass_fields__ if name != "tasks"]
    columns = {name: getattr(legal[np.arange(len(drawn)) % 10], name) for name in names}
    columns |= {"sketch_ids": drawn.sketch_ids, "decisions": drawn.decisions}
    others = Dataset(legal.tasks, **columns)
    rows = Population.concat([legal.population(space), drawn])
    return Dataset.concat([legal, others]), rows


def by_hand(candidate):
    try:
        return candidate.materialise() is not None
    except RejectedError:
        return False


@pytest.mark.parametrize("batch", [5, 100])
def test_what_tvm_does_not_make_is_left_out_and_counted(mixed, batch, monkeypatch):
    monkeypatch.setattr(programs, "_BATCH", batch)
    dataset, rows = mixed
    made = np.array([by_hand(candidate) for candidate in rows])
    assert 0 < (~made).sum() < len(made)
    names = ("symbols", "statement")
    found = task_programs(dataset, DEVICE, lambda device: make_extractors(names, device))
    assert found.refused == (~made).sum()
    assert len(found) == made.sum()
    assert found.latency_s == pytest.approx(dataset.latency_s[made], nan_ok=True)
    assert found.order.tolist() == dataset.order[made].tolist()
    for name, extractor in make_extractors(names, DEVICE).items():
        expected = extractor.extract([rows[int(i)] for i in np.flatnonzero(made)])
        assert found.features[name].offsets.tolist() == expected.offsets.tolist()
        assert found.features[name].values == pytest.approx(expected.values)


def test_features_of_decisions_do_not_ask_tvm(mixed):
    dataset, rows = mixed
    found = task_programs(dataset, DEVICE, lambda device: make_extractors(("symbols",), device))
    assert (len(found), found.refused) == (len(rows), 0)


def test_a_digest_is_that_of_records_and_features(mixed):
    dataset, _ = mixed

    def digest(records, *names):
        return task_programs(records, DEVICE, lambda device: make_extractors(("symbols",), device)).digest(
            names
        )

    assert digest(dataset, "symbols") == digest(dataset, "symbols") != digest(dataset)
    assert digest(dataset) != digest(dataset[1:])
    task = replace(dataset.tasks[0], weight=7.0)
    names = [name for name in Dataset.__dataclass_fields__ if name != "tasks"]
    heavier = Dataset((task,), **{name: getattr(dataset, name) for name in names})
    assert digest(dataset) != digest(heavier)
