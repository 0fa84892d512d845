"""What records say at a glance: a line for each task and machine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from tvm.s_tir.analysis import estimate_tir_flops

from pruner.records.dataset import NO_ROW, Dataset, RecordedTask
from pruner.records.reading import FAILED_NOT_REPLAYED, NOT_REPLAYED, Recorded
from pruner.report import latency


@dataclass(frozen=True)
class TaskLine:
    """The records of a task on a machine.

    device: empty where nothing names it, and for skipped records of a task that several machines measured.
    records: that the source holds. valid: of these, that ran, as far as they could be read. replayed: of
    the valid ones, whose trace today's TVM replays. arrays: of the replayed ones, that are rows of integers.
    failed: that did not run, replayed or not; `failures`: of the replayed ones, by kind. skipped: that are
    not in the data set, by reason. best_s: seconds, None where none ran. gflops: of the best, 10^9 operations
    per second by TVM's count, None where it counts none, or more than a float can hold.
    """

    name: str
    device: str
    weight: float
    records: int
    valid: int
    replayed: int
    arrays: int
    failed: int
    best_s: float | None
    gflops: float | None
    failures: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)


def task_lines(recorded: Recorded) -> list[TaskLine]:
    """A line for each task and machine that measured it, in the order of the tasks."""
    dataset, report = recorded
    found = []
    for position, task in enumerate(dataset.tasks):
        records = dataset[dataset.task == position]
        skipped = report.by_task.get(task.id, {})
        devices = records.devices
        if skipped and len(devices) != 1:
            devices = ("", *(device for device in devices if device))
        for device in devices:
            mine = records[records.device == device]
            found.append(_line(task, device, mine, skipped if device == devices[0] else {}))
    return found


def _line(task: RecordedTask, device: str, records: Dataset, skipped: dict[str, int]) -> TaskLine:
    ran = records.failure == ""
    best = float(records.latency_s[ran].min()) if ran.any() else None
    flop = float(estimate_tir_flops(task.mod))
    speed = flop / best / 1e9 if best else math.nan
    return TaskLine(
        name=task.id,
        device=device,
        weight=task.weight,
        records=len(records) + sum(skipped.values()),
        valid=int(ran.sum()) + _lost(skipped, NOT_REPLAYED),
        replayed=int(ran.sum()),
        arrays=int((ran & (records.sketch_ids != NO_ROW)).sum()),
        failed=int((~ran).sum()) + _lost(skipped, FAILED_NOT_REPLAYED),
        best_s=best,
        gflops=speed if flop > 0 and math.isfinite(speed) else None,
        failures=dict(sorted(Counter(records.failure[~ran].tolist()).items())),
        skipped=dict(skipped),
    )


def _lost(skipped: dict[str, int], beginning: str) -> int:
    """How many were skipped for a reason that begins so."""
    return sum(count for reason, count in skipped.items() if reason.startswith(beginning))


def document(recorded: Recorded, lines: Sequence[TaskLine]) -> dict[str, Any]:
    """The lines as JSON, with the records that were seen in all and skipped by reason: a record whose task
    could not be read is of no line."""
    return {
        "tasks": [asdict(line) for line in lines],
        "seen": recorded.report.seen,
        "skipped": dict(recorded.report.skipped),
    }


def tables(lines: Sequence[TaskLine]) -> Group:
    """A table for each machine, under its name."""
    shown: list[RenderableType] = []
    by_device = sorted(lines, key=lambda line: line.device)
    for device, mine in groupby(by_device, lambda line: line.device):
        shown += [Text(device or "machine not named", style="bold"), _table(list(mine))]
    return Group(*shown)


def _table(lines: Sequence[TaskLine]) -> Table:
    table = Table()
    table.add_column("task", overflow="fold")
    for name in ("records", "valid", "replayed", "arrays", "best", "GFLOP/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("failed", overflow="fold")
    table.add_column("skipped", overflow="fold")
    for line in lines:
        counts = (line.records, line.valid, line.replayed, line.arrays)
        speed = "-" if line.gflops is None else f"{line.gflops:,.1f}"
        kinds = (_counted(line.failures), _counted(line.skipped))
        table.add_row(line.name, *(f"{count:,}" for count in counts), latency(line.best_s), speed, *kinds)
    return table


def _counted(kinds: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()) or "-"
