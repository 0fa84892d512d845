"""A log of Ansor as a data set."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tvm import te
from tvm.ir import IRModule

from pruner.errors import ConfigError, PrunerError, RejectedError
from pruner.records.ansor.dag import StageInfo, stages_of
from pruner.records.ansor.emit import Choices, emit, replay
from pruner.records.ansor.log import Entry, Refused, Result, Untranslated, read_entry, read_result
from pruner.records.ansor.programs import Program, program_of
from pruner.records.ansor.script import Numbers, Script
from pruner.records.ansor.steps import translate
from pruner.records.ansor.target import target_of
from pruner.records.dataset import Dataset, RecordedTask
from pruner.records.old_target import device_of
from pruner.records.reading import Progress, Recorded, Report, lines, not_replayed
from pruner.search.materialise import reason_of
from pruner.search.population import UNUSED
from pruner.search.sketch import Sketch
from pruner.workload import Task, make_task

# Records of a task that are replayed beside one of each sketch.
_SAMPLE = 16
_OFTEN = 100
# Keys of which there is no task that are kept, so that their next record is refused at once.
_REFUSALS = 1000

# Workload key, target, hardware parameters.
_Key = tuple[str, str, tuple[int, ...]]


@dataclass
class _Workload:
    """A task of the log, what its stages are, and its records by form."""

    task: Task
    stages: tuple[StageInfo, ...]
    gpu: bool
    members: dict[Script, list[_Member]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Member:
    line: int
    result: Result
    numbers: Numbers


@dataclass(frozen=True)
class _Row:
    """A record with its task's and its sketch's positions, and the sketch's signature."""

    task: int
    sketch: int
    signature: str
    member: _Member
    decisions: NDArray[np.int64]


def read_ansor(
    path: str | os.PathLike[str],
    *,
    device: str = "",
    programs: Mapping[str, Program] | None = None,
    progress: Progress | None = None,
) -> Recorded:
    """The records of one log, format v0.6, plain or packed with gzip.

    Every record becomes a row of a sketch that has the form of MetaSchedule's own, so that arrays express it.
    On a CPU, loops are spread over cores and made vectors by TVM's bounds for the whole program, which are
    set to what the statement that computes the most had: copies and padding may differ from what was measured
    in how they are vectors. One record of each sketch and a random sample are replayed; where one of them
    fails, all of its sketch are, and those that fail are left out.

    Args:
        path: the log. Its name without suffixes is the task's id; more tasks than one are numbered.
        device: the machine that measured; by default what the records' target says of it.
        programs: tensor programs by the first entry of the workload key, beside those of `register`.
        progress: is told how many lines are read.

    Raises ConfigError when the file cannot be read.
    """
    report = Report()
    workloads = _Workloads(Path(path).name.split(".")[0], programs)
    for number, line in lines(path):
        report.seen += 1
        if progress is not None and report.seen % _OFTEN == 0:
            progress(str(path), report.seen, 0)
        task_id, ran = "", False
        try:
            entry = read_entry(line)
            workload = workloads.of(entry)
            task_id = workload.task.name
            result = read_result(entry.results)
            ran = not result.failure
            form, numbers = translate(workload.stages, entry.steps, gpu=workload.gpu)
            workload.members.setdefault(form, []).append(_Member(number, result, numbers))
        except Untranslated as refused:
            report.skip(path, number, not_replayed(refused.reason, ran=ran), refused.detail, task=task_id)
        except Refused as refused:
            report.skip(path, number, refused.reason, refused.detail, task=task_id)
    rows: list[_Row] = []
    tasks: list[RecordedTask] = []
    for workload in workloads.known.values():
        task = workload.task
        made, lost = _rows(workload, len(tasks))
        for member, message in lost:
            reason, _, detail = message.partition(": ")
            reason = not_replayed(reason, ran=not member.result.failure)
            report.skip(path, member.line, reason, detail, task=task.name)
        rows += made
        # Dictionaries keep the order in which the rows count them.
        signatures = dict.fromkeys(row.signature for row in made)
        tasks.append(RecordedTask(task.name, task.mod, task.target, sketches=tuple(signatures)))
    return Recorded(_dataset(tasks, rows, device), report)


class _Workloads:
    """The tasks of a log by key. name: of the first; the others are numbered."""

    def __init__(self, name: str, programs: Mapping[str, Program] | None) -> None:
        self.name = name
        self.programs = programs
        self.known: dict[_Key, _Workload] = {}
        self.refused: dict[_Key, tuple[str, str]] = {}

    def of(self, entry: Entry) -> _Workload:
        """The task that a record is of. Raises Refused."""
        key = entry.key, entry.target, entry.hardware
        if key in self.refused:
            raise Refused(*self.refused[key])
        if key not in self.known:
            name = f"{self.name}-{len(self.known) + 1}" if self.known else self.name
            try:
                self.known[key] = _workload(entry, name, self.programs)
            except Refused as refused:
                if len(self.refused) < _REFUSALS:
                    self.refused[key] = refused.reason, refused.detail
                raise
        return self.known[key]


def _workload(entry: Entry, name: str, programs: Mapping[str, Program] | None) -> _Workload:
    """The task that a record is of. Raises Refused."""
    try:
        function = program_of(entry.workload[0], programs)
    except ConfigError as error:
        raise Refused("unknown workload", str(error)) from None
    target = target_of(entry.target, entry.hardware)
    try:
        tensors = list(function(*entry.workload[1:]))
        stages = stages_of(tensors)
        task = make_task(te.create_prim_func(tensors), target, name)
    except Exception as error:  # a user's program, or TVM, meets values that it was not made for
        raise Refused("workload values", f"{entry.key[:80]}: {reason_of(error)}") from None
    return _Workload(task, stages, gpu=str(target.kind.name) == "cuda")


def _rows(workload: _Workload, task: int) -> tuple[list[_Row], list[tuple[_Member, str]]]:
    """The rows of a task's records, and the records that do not replay, with the reason."""
    mod = workload.task.mod
    everything = [member.numbers for members in workload.members.values() for member in members]
    choices = Choices.of(everything, gpu=workload.gpu)
    chance = _SAMPLE / max(len(everything), 1)
    rng = np.random.default_rng(0)
    found: list[_Row] = []
    lost: list[tuple[_Member, str]] = []
    known: dict[str, int] = {}
    for form, members in workload.members.items():
        try:
            sketch = emit(mod, form, members[0].numbers, choices)
        except RejectedError as error:
            lost += [(member, str(error)) for member in members]
            continue
        decisions = [choices.row(form, member.numbers) for member in members]
        drawn = np.flatnonzero(rng.random(len(members)) < chance).tolist()
        reasons = _refused(mod, sketch, decisions, sorted({0, *drawn}))
        if reasons:
            reasons = _refused(mod, sketch, decisions, range(len(members)))
        lost += [(members[position], reason) for position, reason in reasons.items()]
        for position, (member, row) in enumerate(zip(members, decisions, strict=True)):
            if position not in reasons:
                number = known.setdefault(sketch.signature, len(known))
                found.append(_Row(task, number, sketch.signature, member, row))
    return found, lost


def _refused(
    mod: IRModule, sketch: Sketch, decisions: Sequence[NDArray[np.int64]], positions: Sequence[int]
) -> dict[int, str]:
    """By position, why rows do not replay."""
    reasons = {}
    for position in positions:
        try:
            replay(mod, sketch, decisions[position])
        except PrunerError as error:
            reasons[position] = str(error)
    return reasons


def _dataset(tasks: Sequence[RecordedTask], rows: list[_Row], device: str) -> Dataset:
    """The rows in the order of the log."""
    rows = sorted(rows, key=lambda row: row.member.line)
    n = len(rows)
    width = max((len(row.decisions) for row in rows), default=0)
    decisions = np.full((n, width), UNUSED, dtype=np.int64)
    for i, row in enumerate(rows):
        decisions[i, : len(row.decisions)] = row.decisions
    results = [row.member.result for row in rows]
    devices = [device or device_of(task.target) for task in tasks]
    return Dataset(
        tuple(tasks),
        task=np.array([row.task for row in rows], dtype=np.int64),
        sketch_ids=np.array([row.sketch for row in rows], dtype=np.int64),
        decisions=decisions,
        traces=np.full(n, None, dtype=np.object_),
        latency_s=np.array([result.latency_s for result in results], dtype=np.float64),
        spread_s=np.array([result.spread_s for result in results], dtype=np.float64),
        failure=np.array([result.failure for result in results], dtype=np.str_),
        cost_s=np.array([result.cost_s for result in results], dtype=np.float64),
        order=np.arange(n, dtype=np.int64),
        device=np.array([devices[row.task] for row in rows], dtype=np.str_),
    )
