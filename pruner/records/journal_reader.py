"""The journal of a run of our own as a data set."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.ir import IRModule
from tvm.s_tir.meta_schedule.utils import shash2hex
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.measure.cause import root_cause
from pruner.measure.measurement import FAILURES
from pruner.records.database import WORKLOADS
from pruner.records.dataset import Dataset, RecordedTask
from pruner.records.journal import NAME, Confirmation, Contents, Header, Record, Trial, record_of
from pruner.records.reading import FAILED_S, Recorded, Report, lines, not_replayed, parse, seconds, within
from pruner.records.rows import Rows, Upgraded, encode
from pruner.records.trace_upgrade import decide, upgrade
from pruner.records.workloads import read_workload
from pruner.workload import NAMED, Task, load_task, make_task

_TEXTS = ("workload", "workload_hash", "device", "fingerprint")
# Nobody measures as many, and arrays hold them.
_TRIALS = 1 << 40


def read_journal(path: str | os.PathLike[str]) -> Recorded:
    """The trials of a journal or a run's folder; a confirmation's time stands in for its trial's.

    A program that the run knows as FAMILY/INDEX is made anew; that of a file comes from the TVM database
    beside the journal: the file itself is not executed. Lines that are no record, trials without a time, and
    traces that do not replay are skipped and counted. Raises ConfigError when there is no header to start
    with, or no program.
    """
    path = Path(path)
    if path.is_dir():
        path = path / NAME
    report = Report()
    contents, places = _contents(path, report)
    task = _task(path, contents.header)
    trials: list[Trial] = []
    numbers: list[int] = []
    traces: list[Upgraded] = []
    for trial, line in zip(contents.confirmed(), places, strict=True):
        if not contents.header.timed or contents.header.replayed:
            report.skip(path, line, "replayed" if contents.header.timed else "not timed", task=task.name)
            continue
        try:
            traces.append(_decided(trial.trace))
        except ValueError as error:
            reason = not_replayed(str(error), ran=trial.failure is None)
            report.skip(path, line, reason, task=task.name)
        else:
            trials.append(trial)
            numbers.append(line)
    rows = encode(task, traces)
    for position, reason in rows.refused.items():
        ran = trials[position].failure is None
        report.skip(path, numbers[position], not_replayed(reason, ran=ran), task=task.name)
    return Recorded(_dataset(task, contents.header, trials, rows), report)


def _decided(trace: Any) -> Upgraded:
    """Raises ValueError, with a short reason, for no trace."""
    if not isinstance(trace, list) or len(trace) != 2 or not all(isinstance(part, list) for part in trace):
        raise ValueError("trace form")
    template = upgrade(trace[0])
    return template, decide(template, trace[1])


def _contents(path: Path, report: Report) -> tuple[Contents, list[int]]:
    """The journal as far as it can be read, and the lines that its trials stand on."""
    records = _records(path, report)
    header = next(records, (0, None))[1]
    if not isinstance(header, Header):
        raise ConfigError(f"{path} is no journal: it does not start with a header. Give a run's {NAME}.")
    if not isinstance(header.target, dict) or any(
        not isinstance(getattr(header, name), str) for name in _TEXTS
    ):
        raise ConfigError(f"{path}: the header lacks a target, or its {', '.join(_TEXTS)} are no texts.")
    contents = Contents(header)
    places: list[int] = []
    known: set[int] = set()
    for number, record in records:
        fault = _fault(record, known, header.timed)
        if fault:
            report.seen += not isinstance(record, Trial)  # which a trial is already
            report.skip(path, number, fault, task=header.workload)
            continue
        contents.add(record)
        if isinstance(record, Trial):
            known.add(record.trial)
            places.append(number)
    return contents, places


def _records(path: Path, report: Report) -> Iterator[tuple[int, Record]]:
    """The records of the lines that hold one; trials, and lines that hold none, count as seen."""
    for number, line in lines(path):
        try:
            record = record_of(parse(line), f"line {number}")
        except ValueError as error:
            report.skip(path, number, str(error))
        except ConfigError as error:
            report.skip(path, number, "no journal record", str(error))
        else:
            report.seen += isinstance(record, Trial)
            yield number, record
            continue
        report.seen += 1


def _fault(record: Record, known: set[int], timed: bool) -> str:
    """Why a record of a run cannot be used, or nothing. known: the numbers of the trials before it. timed:
    a program that ran has a latency."""
    if isinstance(record, Header):
        return "second header"
    if not isinstance(record, (Trial, Confirmation)):
        return ""
    if not isinstance(record.trial, int) or not within(record.trial, 0, _TRIALS):
        return "trial number no integer"
    if record.failure is not None and record.failure not in FAILURES:
        return "unknown failure"
    time = seconds([record.latency_s])
    if timed and record.failure is None and isinstance(time, str):
        return time
    if isinstance(record, Trial):
        if record.trial in known:
            return "repeated trial"
        if not all(within(cost, 0, FAILED_S) for cost in (record.build_s, record.run_s)):
            return "cost no number"
    if record.spread_s is not None and not within(record.spread_s, 0, FAILED_S):
        return "spread no number"
    return ""


def _stored_module(path: Path) -> IRModule:
    """The first program of the database beside the journal."""
    stored = path.with_name(WORKLOADS)
    if not stored.is_file():
        raise ConfigError(
            f"{path} is of a program of a file, and the {WORKLOADS} that holds it is not beside it. Give the "
            "whole folder of the run."
        )
    try:
        return read_workload(0, parse(next(lines(stored))[1])).mod
    except (StopIteration, ValueError, ConfigError) as error:
        raise ConfigError(
            f"{stored} holds no program ({error}). Give the whole folder of the run."
        ) from error


def _target(path: Path, description: dict[str, Any]) -> Target:
    try:
        return Target(description)
    except Exception as error:  # TVM raises its own kinds of error
        raise ConfigError(f"{path}: this TVM does not know the target ({root_cause(str(error))}).") from error


def _task(path: Path, header: Header) -> Task:
    target = _target(path, header.target)
    if NAMED.fullmatch(header.workload):
        task = load_task(header.workload, target)
    else:
        task = make_task(_stored_module(path), target, header.workload)
    if shash2hex(task.mod) != header.workload_hash:
        raise ConfigError(
            f"{path}: the program of {header.workload} is not the one that was tuned (hash "
            f"{shash2hex(task.mod)}, recorded {header.workload_hash}): read it with the TVM that wrote it."
        )
    return task


def _dataset(task: Task, header: Header, trials: Sequence[Trial], rows: Rows) -> Dataset:
    kept = [i for i in range(len(trials)) if i not in rows.refused]
    trials = [trials[i] for i in kept]
    ran = [trial.failure is None for trial in trials]
    return Dataset(
        (RecordedTask(task.name, task.mod, task.target, sketches=rows.sketches),),
        task=np.zeros(len(trials), dtype=np.int64),
        sketch_ids=rows.sketch_ids[kept],
        decisions=rows.decisions[kept],
        traces=rows.traces[kept],
        latency_s=_floats([t.latency_s if ok else None for t, ok in zip(trials, ran, strict=True)]),
        spread_s=_floats([t.spread_s if ok else None for t, ok in zip(trials, ran, strict=True)]),
        failure=np.array([trial.failure or "" for trial in trials], dtype=np.str_),
        cost_s=_floats([trial.build_s + trial.run_s for trial in trials]),
        order=np.array([trial.trial for trial in trials], dtype=np.int64),
        device=np.array([header.fingerprint or header.device] * len(trials), dtype=np.str_),
    )


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
