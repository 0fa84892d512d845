"""MetaSchedule databases: the two files that TVM 0.9 to today write, one workload or one record a line."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tvm.target import Target

from pruner.errors import ConfigError, PrunerError
from pruner.records.database import RECORDS, WORKLOADS, plain
from pruner.records.dataset import Dataset, RecordedTask, object_column
from pruner.records.old_target import device_of, todays_target
from pruner.records.reading import (
    NOT_RUN,
    Progress,
    Recorded,
    Report,
    lines,
    not_replayed,
    parse,
    seconds,
    within,
)
from pruner.records.rows import Rows, Upgraded, encode
from pruner.records.trace_upgrade import Template, decide, upgrade
from pruner.records.workloads import Workload, read_workload
from pruner.search.population import UNUSED
from pruner.workload import Task

TASKS = "tasks.csv"
_FIELDS = 4  # of a record: trace, run times, target, arguments
_STEP = 1000  # records between two reports of progress


def read_metaschedule(
    folder: str | os.PathLike[str], *, device: str = "", progress: Progress | None = None
) -> Recorded:
    """The records of a database's folder, its files plain or packed with gzip. A task's id is the number of
    its workload line; `tasks.csv` beside them gives its weight.

    A record counts for the workload that it names only if its arguments are that workload's. A workload that
    stands twice is one task. A failed program is a record with a failure; what is no record is skipped and
    counted by reason, and by task where that much of it can be read. Nothing that the files say is executed.

    Args:
        device: the machine that measured; by default what the records' target says of it. Records of another
            target than the first one's are of a task and of a device of their own, which is called by both
            names; targets that say the same of the machine are numbered.

    Raises ConfigError when a file is not there or cannot be read, and when no workload is readable.
    """
    path = Path(folder)
    reader = _Reader(_workloads(_file(path, WORKLOADS)), device)
    source = _file(path, RECORDS)
    report = Report()
    for number, line in lines(source):
        report.seen += 1
        reader.add(number, line, partial(report.skip, source, number))
        if progress is not None and report.seen % _STEP == 0:
            progress(str(source), report.seen, 0)
    dataset = reader.dataset(_weights(path / TASKS), source, report)
    if progress is not None:
        progress(str(source), report.seen, report.seen)
    return Recorded(dataset, report)


@dataclass
class _Group:
    """The records of one workload on one target. lines: where each stands."""

    id: str
    task: Task
    device: str
    lines: list[int] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    traces: list[Upgraded] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class _Target:
    """number: of the targets before it. name: what it says of the machine, numbered from the second such one
    on."""

    number: int
    name: str
    target: Target


class _Reader:
    """Sorts records by workload and target. workloads: by line, or why one cannot be read."""

    def __init__(self, workloads: list[Workload | str], device: str) -> None:
        self.workloads = workloads
        self.device = device
        self.groups: dict[tuple[int, int], _Group] = {}
        self.targets: dict[str, _Target] = {}  # as they are described
        self.known: dict[str, _Target] = {}  # as this TVM describes them
        self.names: Counter[str] = Counter()
        self.templates: dict[str, Template] = {}
        self.seen = 0

    def add(self, line: int, text: str, skip: Callable[..., None]) -> None:
        """Files the record on a line under its workload and target. skip: is told of one that has no place:
        the reason, a detail, and `task` where it is known."""
        self.seen += 1
        task = ""
        try:
            workload, (trace, times, target, arguments) = self._content(parse(text))
            if workload.arguments != arguments:
                raise ValueError("arguments of another workload")
            task = str(workload.index)
            group = self._group(workload, target)
            task = group.id
            measured = seconds([] if times is None else times)
            if isinstance(measured, str):
                if measured not in NOT_RUN:
                    raise ValueError(measured)
                measured = math.nan, math.nan
        except ValueError as error:
            reason, _, detail = str(error).partition(": ")
            skip(reason, detail, task=task)
            return
        try:
            decided = self._decided(trace)
        except ValueError as error:
            skip(not_replayed(str(error), ran=not math.isnan(measured[0])), task=task)
            return
        group.lines.append(line)
        group.order.append(self.seen)
        group.traces.append(decided)
        group.times.append(measured)

    def _content(self, record: Any) -> tuple[Workload, list[Any]]:
        """The workload and the four fields of a record. Raises ValueError, `reason` or `reason: detail`."""
        if not isinstance(record, list):
            raise ValueError("record form")
        if len(record) != 2:
            raise ValueError(f"field count: {len(record)} instead of 2")
        index, content = record
        if not isinstance(content, list):
            raise ValueError("record form")
        if len(content) != _FIELDS:
            raise ValueError(f"field count: {len(content)} instead of {_FIELDS}")
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(self.workloads):
            raise ValueError(f"workload index: {str(index)[:40]} of {len(self.workloads)}")
        workload = self.workloads[index]
        if isinstance(workload, str):
            raise ValueError(f"workload unreadable: {workload}")
        return workload, content

    def _decided(self, trace: Any) -> Upgraded:
        """Raises ValueError, with a short reason."""
        if (
            not isinstance(trace, list)
            or len(trace) != 2
            or not all(isinstance(part, list) for part in trace)
        ):
            raise ValueError("trace form")
        text = json.dumps(trace[0])
        if text not in self.templates:
            self.templates[text] = upgrade(trace[0])
        template = self.templates[text]
        return template, decide(template, trace[1])

    def _group(self, workload: Workload, description: Any) -> _Group:
        target = self._target(description)
        key = workload.index, target.number
        if key not in self.groups:
            id = str(workload.index)
            device = self.device or target.name
            if target.number:
                id = f"{id} on {target.name}"
                device = f"{self.device} ({target.name})" if self.device else target.name
            task = Task(str(workload.index), workload.mod, target.target)
            self.groups[key] = _Group(id, task, device)
        return self.groups[key]

    def _target(self, description: Any) -> _Target:
        """Raises ValueError, `target: detail`."""
        text = json.dumps(description, sort_keys=True)
        if text not in self.targets:
            target = todays_target(description)
            known = json.dumps(plain(target.export()), sort_keys=True)
            if known not in self.known:
                named = device_of(target)
                self.names[named] += 1
                alike = f" #{self.names[named]}" if self.names[named] > 1 else ""
                self.known[known] = _Target(len(self.known), f"{named}{alike}", target)
            self.targets[text] = self.known[known]
        return self.targets[text]

    def dataset(self, weights: Mapping[int, float], source: Path, report: Report) -> Dataset:
        """The records that have rows or traces, in the order of the file; the others are reported."""
        groups = [group for _, group in sorted(self.groups.items(), key=lambda item: item[0])]
        encoded = [encode(group.task, group.traces) for group in groups]
        for group, rows in zip(groups, encoded, strict=True):
            for position, reason in rows.refused.items():
                ran = not math.isnan(group.times[position][0])
                report.skip(source, group.lines[position], not_replayed(reason, ran=ran), task=group.id)
        return _joined(groups, encoded, weights)


def _joined(groups: list[_Group], encoded: list[Rows], weights: Mapping[int, float]) -> Dataset:
    tasks = []
    columns: dict[str, list[Any]] = {
        name: [] for name in ("task", "sketch_ids", "decisions", "traces", "times", "order", "device")
    }
    width = max((rows.decisions.shape[1] for rows in encoded), default=0)
    for number, (group, rows) in enumerate(zip(groups, encoded, strict=True)):
        weight = weights.get(int(group.task.name), 1.0)
        tasks.append(RecordedTask(group.id, group.task.mod, group.task.target, weight, rows.sketches))
        kept = np.array([i for i in range(len(group.lines)) if i not in rows.refused], dtype=np.int64)
        decisions = np.full((len(kept), width), UNUSED, dtype=np.int64)
        decisions[:, : rows.decisions.shape[1]] = rows.decisions[kept]
        columns["task"].append(np.full(len(kept), number))
        columns["sketch_ids"].append(rows.sketch_ids[kept])
        columns["decisions"].append(decisions)
        columns["traces"].append(rows.traces[kept])
        columns["times"].append(np.array(group.times, dtype=np.float64).reshape(-1, 2)[kept])
        columns["order"].append(np.array(group.order, dtype=np.int64)[kept])
        columns["device"].append(np.full(len(kept), group.device))
    empty = {"decisions": np.empty((0, width)), "traces": object_column([]), "times": np.empty((0, 2))}
    joined = {
        name: np.concatenate([*parts]) if parts else empty.get(name, np.empty(0))
        for name, parts in columns.items()
    }
    latency, spread = joined["times"].astype(np.float64).T
    return Dataset(
        tuple(tasks),
        task=joined["task"].astype(np.int64),
        sketch_ids=joined["sketch_ids"].astype(np.int64),
        decisions=joined["decisions"].astype(np.int64),
        traces=joined["traces"],
        latency_s=latency,
        spread_s=spread,
        failure=np.where(np.isnan(latency), "run", ""),
        cost_s=np.full(len(latency), np.nan),
        order=joined["order"].astype(np.int64),
        device=joined["device"].astype(np.str_),
    )


def _workloads(path: Path) -> list[Workload | str]:
    """A workload a line, in order: records name them by number."""
    found: list[Workload | str] = []
    known: dict[Hashable, Workload] = {}
    for number, line in lines(path):
        try:
            workload = read_workload(len(found), parse(line))
        except (ValueError, PrunerError) as error:
            found.append(f"{path}, line {number}: {error}")
            continue
        found.append(known.setdefault(workload.program, workload))
    readable = [workload for workload in found if isinstance(workload, Workload)]
    if not readable:
        reason = f"the first is {found[0]}" if found else "it is empty"
        raise ConfigError(f"{path} holds no workload that can be read: {reason}.")
    return found


def _weights(path: Path) -> dict[int, float]:
    """How often the network runs each workload, where the file says it."""
    if not path.is_file():
        return {}
    places = [1]

    def texts() -> Iterator[str]:
        for number, line in lines(path):
            places.append(number)
            yield line

    weights = {}
    try:
        for row in csv.DictReader(texts()):
            weight = float(row["weight"])
            if not within(weight, 0, sys.float_info.max):
                raise ValueError(f"a weight of {weight}")
            weights[int(row["task"])] = weight
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise ConfigError(
            f"{path}, line {places[-1]}: it needs the number of a task and a weight from 0 ({error})."
        ) from error
    return weights


def _file(folder: Path, name: str) -> Path:
    """The file, plain or packed."""
    found = next((path for suffix in ("", ".gz") if (path := folder / f"{name}{suffix}").is_file()), None)
    if found is None:
        raise ConfigError(
            f"{folder} has no {name} and no {name}.gz: give the folder of a MetaSchedule database."
        )
    return found
