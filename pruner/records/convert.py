"""Records written for others: a MetaSchedule database of TVM 0.27, or one compact file of ours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import Workload

from pruner.errors import ConfigError, RejectedError, UntunableError
from pruner.files import draft_of
from pruner.records import storage
from pruner.records.database import RECORDS, WORKLOADS, plain
from pruner.records.dataset import Dataset, RecordedTask
from pruner.records.reading import FAILURE_MARK_S, Progress
from pruner.records.spaces import find_rows
from pruner.records.storage import SUFFIXES
from pruner.search.materialise import materialise_many

# Why records are left out, and how many: by task, then by reason.
LeftOut = dict[str, dict[str, int]]

# Programs that are made at a time, between two reports of progress.
_CHUNK = 64
# Characters of a reason that are kept.
_LENGTH = 200


def convert(dataset: Dataset, out: Path, progress: Progress | None = None) -> LeftOut:
    """Writes the data set to `out`, which is not there yet: an .npz or .parquet file where it is called so,
    else a folder that is a MetaSchedule database. Returns the records that a database cannot hold, by task
    and reason.

    A database has no place for a machine, so it takes the records of one; nor for weights, costs, spreads and
    kinds of failure. Its traces are post-processed, as TVM keeps them: what TVM's post-processors refuse is
    left out, as are the records of a task whose program has no schedule to choose. Raises ConfigError as
    `check_out` does, and for records of no machine or several.
    """
    check_out(out)
    if out.suffix in SUFFIXES:
        dataset.save(out)
        return {}
    _check_device(dataset)
    try:
        with draft_of(out) as draft:
            draft.mkdir()
            left_out = _write_database(dataset, draft, progress)
            if total(left_out) == len(dataset):
                raise ConfigError(
                    f"TVM makes none of the {len(dataset)} programs ({_first(left_out)}): there is nothing "
                    "to write."
                )
            return left_out
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error.strerror}. Choose another folder.") from error


def total(left_out: LeftOut) -> int:
    """How many records are left out."""
    return sum(sum(reasons.values()) for reasons in left_out.values())


def _first(left_out: LeftOut) -> str:
    """The first reason."""
    return next(reason for reasons in left_out.values() for reason in reasons)


def check_out(out: Path) -> None:
    """Raises ConfigError for a path that nothing can be written to. Writes nothing."""
    if out.exists() or out.is_symlink():
        raise ConfigError(f"{out} exists already. Choose another name, or remove it.")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"{out} cannot be written: there is no folder {out.parent}. Make it first.")
    if out.suffix and out.suffix not in SUFFIXES:
        raise ConfigError(
            f"{out} is no kind of file that is written: give a name that ends in {' or '.join(SUFFIXES)}, or "
            "one without an ending for a database folder."
        )
    storage.check_library(out)


def _check_device(dataset: Dataset) -> None:
    if not len(dataset):
        raise ConfigError("there are no records to write.")
    if len(dataset.devices) == 1 and dataset.devices[0]:
        return
    known = ", ".join(name or "(unnamed)" for name in dataset.devices)
    raise ConfigError(
        f"a database holds the records of one machine, and these are of {known}. Choose one with "
        "--device NAME; give one a name with --as NAME."
    )


def _write_database(dataset: Dataset, folder: Path, progress: Progress | None) -> LeftOut:
    places: dict[str, int] = {}  # by the line of the workload: tasks of two targets may share one
    left_out: LeftOut = {}
    with (
        (folder / WORKLOADS).open("w", encoding="utf-8") as workloads,
        (folder / RECORDS).open("w", encoding="utf-8") as records,
    ):
        for task in dataset.tasks:
            mine = dataset.of(task.id)
            if not len(mine):
                continue
            line = json.dumps(plain(Workload(task.mod).as_json()))
            if line not in places:
                places[line] = len(places)
                workloads.write(f"{line}\n")
            reasons = _write_records(
                mine[np.argsort(mine.order, kind="stable")], places[line], records, progress
            )
            if reasons:
                left_out[task.id] = dict(reasons)
    return left_out


def _write_records(records: Dataset, place: int, file: TextIO, progress: Progress | None) -> Counter[str]:
    """Writes the records of a task; returns why others are left out, and how many."""
    (task,) = records.tasks
    target = plain(task.target.export())
    args_info = [plain(info.as_json()) for info in ArgInfo.from_entry_func(task.mod, True)]
    reasons: Counter[str] = Counter()
    for position, trace in _traces(records, task, progress, reasons):
        failed = records.failure[position] != ""
        times = [FAILURE_MARK_S if failed else float(records.latency_s[position])]
        file.write(f"{json.dumps([place, [trace, times, target, args_info]], allow_nan=False)}\n")
    return reasons


def _traces(
    records: Dataset, task: RecordedTask, progress: Progress | None, reasons: Counter[str]
) -> Iterator[tuple[int, list[Any]]]:
    """The post-processed traces as JSON values, with the records' positions. reasons: gets those of records
    that have none."""
    try:
        found = find_rows(records)
    except (ConfigError, UntunableError) as error:  # which is of the whole task
        reasons[_line(error)] += len(records)
        return
    reasons.update(map(_line, found.refused.values()))
    if found.rows is None:
        return
    order = np.argsort(found.kept, kind="stable")
    rows, kept = found.rows[order], found.kept[order]
    for start in range(0, len(rows), _CHUNK):
        for i, schedule in enumerate(materialise_many(list(rows[start : start + _CHUNK])), start):
            if isinstance(schedule, RejectedError):
                reasons[_line(schedule)] += 1
            else:
                yield int(kept[i]), plain(schedule.trace.as_json())
        if progress is not None:
            progress(task.id, min(start + _CHUNK, len(rows)), len(rows))


def _line(reason: object) -> str:
    """In one line of some length: TVM prints programs."""
    return " ".join(str(reason).split())[:_LENGTH]
