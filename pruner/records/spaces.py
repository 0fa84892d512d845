"""From recorded rows back to the space that they are rows of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from pruner.errors import ConfigError
from pruner.records.dataset import NO_ROW, Dataset, RecordedTask
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import Task

# Rows of one sketch that are tried before it is given up.
_TRIES = 8


def recorded_rows(records: Dataset) -> tuple[Population, NDArray[np.int64]]:
    """Records of one task as rows of a space that has just the sketches they need, and which records these
    are: all but those whose trace TVM refuses or the space cannot encode.

    A signature is a trace without decisions, so a sketch is made again from it and a row; a record without a
    row brings its own trace. Raises ConfigError when no record can be used, or a data set of several tasks is
    given.
    """
    if len(records.tasks) != 1:
        raise ConfigError(f"rows are of one task; the data set has {len(records.tasks)}: select with `of`.")
    recorded = records.tasks[0]
    task = Task(recorded.id, recorded.mod, recorded.target)
    traces = dict(_own_traces(task, records))
    sketches = {int(i): _sketch_trace(task, records, int(i)) for i in np.unique(records.sketch_ids)}
    known = [trace for trace in sketches.values() if trace is not None]
    if not known and not traces:
        raise ConfigError(f"TVM refuses every one of the {len(records)} recorded programs of {recorded.id}.")
    space = Space.from_traces(task, [*known, *traces.values()])
    found = np.array([sketches[i] is not None for i in records.sketch_ids.tolist()], dtype=bool)
    parts = [records[found].population(space)]
    kept = np.flatnonzero(found).tolist()
    for position, trace in traces.items():
        try:
            parts.append(space.encode(trace))
        except ConfigError:
            continue
        kept.append(position)
    return Population.concat(parts), np.array(kept, dtype=np.int64)


def _own_traces(task: Task, records: Dataset) -> Iterator[tuple[int, Trace]]:
    """The traces of records without a row, by position."""
    for position in np.flatnonzero(records.sketch_ids == NO_ROW).tolist():
        trace = _replayed(task, json.loads(records.traces[position]))
        if trace is not None:
            yield position, trace


def _sketch_trace(task: Task, records: Dataset, sketch: int) -> Trace | None:
    """A decided trace of one of the task's sketches; None where TVM refuses all that are tried, and for
    NO_ROW."""
    if sketch == NO_ROW:
        return None
    rows = records.decisions[records.sketch_ids == sketch][:_TRIES]
    return next(
        (trace for row in rows if (trace := _replayed(task, decided(records.tasks[0], sketch, row)))), None
    )


def _replayed(task: Task, trace: list[Any]) -> Trace | None:
    schedule = Schedule(task.mod)
    try:
        Trace.apply_json_to_schedule(trace, schedule)
    except Exception:  # TVM raises its own kinds of error
        return None
    return schedule.trace


def decided(task: RecordedTask, sketch: int, row: NDArray[np.int64]) -> list[Any]:
    """The trace of a row as JSON values, as TVM writes it: `[instructions, decisions]`.

    Args:
        sketch: a position in `task.sketches`. row: int64, at least as long as the sketch is wide.
    """
    instructions = json.loads(task.sketches[sketch])
    values = row.tolist()
    decisions: list[list[Any]] = []
    at = 0
    for number, (kind, _, attributes, _) in enumerate(instructions):
        if kind == "SamplePerfectTile":
            parts = int(attributes[0])
            decisions.append([number, values[at : at + parts]])
            at += parts
        elif kind in ("SampleCategorical", "SampleComputeLocation"):
            decisions.append([number, values[at]])
            at += 1
    return [instructions, decisions]
