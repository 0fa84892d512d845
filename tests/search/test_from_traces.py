"""Spaces made from recorded traces: their rows, and winograd's sketches as arrays."""

import numpy as np
import pytest
from nest_util import CUDA, check, context
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from pruner.analyzer.device import Device
from pruner.analyzer.roofline import RooflineDraft
from pruner.errors import ConfigError
from pruner.records.dataset import Dataset
from pruner.records.metaschedule import read_metaschedule
from pruner.records.spaces import decided
from pruner.search.analysis import SketchAnalysis
from pruner.search.sketch import Sketch
from pruner.search.space import Space
from pruner.workload import Task
from tests.records.old_database import CONV, FOLDER, WINOGRAD


@pytest.fixture(scope="module")
def recorded() -> Dataset:
    return read_metaschedule(FOLDER).dataset


def traces(records: Dataset) -> list[Trace]:
    """The replayed trace of each record."""
    found = []
    for sketch, row in zip(records.sketch_ids.tolist(), records.decisions, strict=True):
        schedule = Schedule(records.tasks[0].mod)
        Trace.apply_json_to_schedule(decided(records.tasks[0], sketch, row), schedule)
        found.append(schedule.trace)
    return found


def task_of(records: Dataset) -> Task:
    return Task(records.tasks[0].id, records.tasks[0].mod, records.tasks[0].target)


@pytest.mark.parametrize("number", [CONV, WINOGRAD])
def test_every_recorded_trace_has_a_row_of_the_space_and_is_legal(recorded: Dataset, number: int) -> None:
    records = recorded.of(str(number))[::9]
    replayed = traces(records)
    space = Space.from_traces(task_of(records), replayed)
    rows = records.population(space)
    for i, trace in enumerate(replayed):
        encoded = space.encode(trace)
        assert encoded.sketch_ids[0] == rows.sketch_ids[i]
        assert encoded.decisions[0].tolist() == rows.decisions[i].tolist()
    assert space.supported == (True,) * len(space.sketches)
    ran = records.failure == ""
    assert ran.any()
    assert space.legal(rows)[ran].all()


def test_drafts_score_recorded_rows(recorded: Dataset) -> None:
    records = recorded.of(str(CONV))
    space = Space.from_traces(task_of(records), traces(records[::3]))
    scores = RooflineDraft(device=Device.load("a100-40g")).score(records.population(space))
    assert scores.shape == (len(records),)
    assert space.slow_rows == 0
    assert np.isfinite(scores[records.failure == ""]).mean() > 0.8


def test_a_space_needs_a_trace_and_knows_its_own_sketches_only(recorded: Dataset) -> None:
    records = recorded.of(str(CONV))
    with pytest.raises(ConfigError, match="at least one"):
        Space.from_traces(task_of(records), [])
    first = records[records.sketch_ids == 0][:1]
    other = records[records.sketch_ids == 1][:1]
    space = Space.from_traces(task_of(records), traces(first) * 2)
    assert len(space.sketches) == 1
    with pytest.raises(ConfigError, match="belongs to none"):
        space.encode(traces(other)[0])


def test_nests_and_legality_of_winograd_are_tvms(recorded: Dataset) -> None:
    records = recorded.of(str(WINOGRAD))
    tuned = context(records.tasks[0].mod, CUDA)
    rng = np.random.default_rng(0)
    for sketch_id in range(len(records.tasks[0].sketches)):
        [trace] = traces(records[records.sketch_ids == sketch_id][:1])
        sketch = Sketch.of(trace)
        analysis = SketchAnalysis(tuned.mod, sketch, CUDA)
        count = check(tuned, sketch, analysis, 3, rng)
        assert count["legal"] + count["rejected"] == 3
