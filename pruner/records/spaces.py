"""From recorded rows back to the space that they are rows of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir.schedule import Trace

from pruner.errors import ConfigError, RejectedError
from pruner.records.dataset import NO_ROW, Dataset, RecordedTask
from pruner.records.reading import parse
from pruner.records.rows import as_json, replayed
from pruner.records.trace_upgrade import decide, samplings, upgrade
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import Task

# Rows of one sketch that are tried before it is given up.
_TRIES = 8


@dataclass
class FoundRows:
    """Records of one task as rows of a space that has just the sketches they need.

    rows: None where no record can be used. kept: int64, which records these are. refused: why the others are
    not among them, by position."""

    rows: Population | None
    kept: NDArray[np.int64]
    refused: dict[int, str]


def recorded_rows(records: Dataset) -> tuple[Population, NDArray[np.int64]]:
    """Records of one task as rows of a space that has just the sketches they need, and which records these
    are: all but those whose trace TVM refuses or the space cannot encode. Raises ConfigError when no record
    can be used, or a data set of several tasks is given.
    """
    found = find_rows(records)
    if found.rows is None:
        raise ConfigError(
            f"TVM refuses every one of the {len(records)} recorded programs of {records.tasks[0].id}"
            f"{f' ({next(iter(found.refused.values()))})' if found.refused else ''}."
        )
    return found.rows, found.kept


def find_rows(records: Dataset) -> FoundRows:
    """As `recorded_rows`, with the reason for each record that is left out.

    A signature is a trace without decisions, so a sketch is made again from it and a row; a record without a
    row brings its own trace. Raises ConfigError for a data set of several tasks, and UntunableError for a
    program that has no schedule to choose.
    """
    if len(records.tasks) != 1:
        raise ConfigError(f"rows are of one task; the data set has {len(records.tasks)}: select with `of`.")
    recorded = records.tasks[0]
    task = Task(recorded.id, recorded.mod, recorded.target)
    refused: dict[int, str] = {}
    traces: dict[int, Trace] = {}
    for position in np.flatnonzero(records.sketch_ids == NO_ROW).tolist():
        trace = _own_trace(task, records.traces[position])
        if isinstance(trace, Trace):
            traces[position] = trace
        else:
            refused[position] = trace
    known: list[Trace] = []
    found = np.zeros(len(records), dtype=bool)
    for sketch in np.unique(records.sketch_ids[records.sketch_ids != NO_ROW]).tolist():
        mine = records.sketch_ids == sketch
        trace = _sketch_trace(task, recorded, sketch, records.decisions[mine])
        if isinstance(trace, Trace):
            known.append(trace)
            found |= mine
        else:
            refused |= dict.fromkeys(np.flatnonzero(mine).tolist(), trace)
    if not known and not traces:
        return FoundRows(None, np.empty(0, dtype=np.int64), refused)
    space = Space.from_traces(task, [*known, *traces.values()])
    parts = [records[found].population(space)]
    kept = np.flatnonzero(found).tolist()
    for position, own in traces.items():
        try:
            parts.append(space.encode(own))
        except (ConfigError, RejectedError) as error:
            refused[position] = str(error)
        else:
            kept.append(position)
    return FoundRows(Population.concat(parts), np.array(kept, dtype=np.int64), refused)


def _own_trace(task: Task, text: str | None) -> Trace | str:
    """The trace of a record without a row, or why TVM makes none."""
    try:
        trace = parse(text or "")
        if not isinstance(trace, list) or len(trace) != 2 or not all(isinstance(p, list) for p in trace):
            raise ValueError("trace form")
        return _replay(task, trace)
    except ValueError as error:
        return str(error)


def _sketch_trace(task: Task, recorded: RecordedTask, sketch: int, rows: NDArray[np.int64]) -> Trace | str:
    """A decided trace of one of the task's sketches, or why TVM refuses the first of the rows, where it
    refuses all that are tried."""
    refusal = ""
    for row in rows[:_TRIES]:
        trace: Trace | str
        try:
            trace = _replay(task, decided(recorded, sketch, row))
        except ValueError as error:
            trace = str(error)
        if isinstance(trace, Trace):
            return trace
        refusal = refusal or trace
    return refusal


def _replay(task: Task, trace: list[Any]) -> Trace | str:
    """Raises ValueError, with a short reason, for what TVM must not be given."""
    template = upgrade(trace[0])
    schedule = replayed(task, as_json((template, decide(template, trace[1]))))
    return schedule if isinstance(schedule, str) else schedule.trace


def decided(task: RecordedTask, sketch: int, row: NDArray[np.int64]) -> list[Any]:
    """The trace of a row as JSON values, as TVM writes it: `[instructions, decisions]`.

    Args:
        sketch: a position in `task.sketches`. row: int64, at least as long as the sketch is wide.

    Raises ValueError, with a short reason, for a sketch that is no trace and for a row that is too short.
    """
    instructions = parse(task.sketches[sketch])
    values = row.tolist()
    decisions: list[list[Any]] = []
    for sampling in samplings(instructions):
        mine = values[sampling.start : sampling.stop]
        if len(mine) < sampling.stop - sampling.start:
            raise ValueError("row too short")
        decisions.append([sampling.number, mine if sampling.tile else mine[0]])
    return [instructions, decisions]
