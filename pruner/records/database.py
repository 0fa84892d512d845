"""The TVM database of a run, derived from its journal, and the way back from it to a running program."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import JSONDatabase, Workload
from tvm.target import Target

from pruner._tvm import fast_intrinsics
from pruner.errors import ConfigError, RejectedError
from pruner.executable import Executable
from pruner.files import write_whole
from pruner.measure.inputs import Inputs
from pruner.measure.program import arguments_of
from pruner.measure.runtime import runtime_of
from pruner.records.journal import NAME, Contents, Journal, Trial
from pruner.search.candidate import Candidate
from pruner.workload import Task

WORKLOADS = "database_workload.json"
RECORDS = "database_tuning_record.json"


def trace_json(candidate: Candidate) -> list[Any]:
    """The candidate's trace, post-processing included, as plain JSON values; without it when TVM refuses
    the candidate."""
    try:
        trace = candidate.materialise().trace
    except RejectedError:
        return decided_json(candidate)
    values: list[Any] = plain(trace.as_json())
    return values


def decided_json(candidate: Candidate) -> list[Any]:
    """The candidate's trace as it is before TVM applies it, as plain JSON values."""
    values: list[Any] = plain(candidate.decided.as_json())
    return values


def plain(value: Any) -> Any:
    """TVM's containers and immediates as the Python values `json` can write."""
    if isinstance(value, bool):
        return int(value)  # as TVM's own files hold it
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "value"):
        return value.value  # IntImm and FloatImm
    return [plain(item) for item in value]


def write_database(work_dir: str | os.PathLike[str], task: Task, contents: Contents) -> None:
    """Writes the run's two database files anew; each appears whole or not at all.

    Trials that failed, or that a confirmation found wrong, are not entered: TVM would take a stand-in
    latency for a time. A trial that claims to be faster than the run's best, but was not timed again, is
    left out too, so that TVM's query finds the program that was confirmed; the journal keeps it.
    """
    folder = Path(work_dir)
    target = plain(task.target.export())
    args_info = [plain(info.as_json()) for info in ArgInfo.from_entry_func(task.mod, True)]
    records = [[0, [trial.trace, [trial.latency_s], target, args_info]] for trial in _entered(contents)]
    _replace(folder / WORKLOADS, [plain(Workload(task.mod).as_json())])
    _replace(folder / RECORDS, records)


def _entered(contents: Contents) -> list[Trial]:
    valid = [trial for trial in contents.confirmed() if trial.failure is None and trial.latency_s is not None]
    best = contents.best()
    if best is None or best.latency_s is None:
        return valid
    floor = best.latency_s
    kept = [t for t in valid if t.latency_s is not None and t.latency_s >= floor]
    # First in the file: TVM takes the first of equals.
    return sorted(kept, key=lambda trial: trial.trial != best.trial)


def _replace(path: Path, lines: list[Any]) -> None:
    """One JSON value a line. TVM cannot load a file with a blank or unfinished line."""
    write_whole(path, "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in lines))


@dataclass(frozen=True)
class TunedProgram:
    """The best program of a run. latency_s: as the run timed it."""

    mod: IRModule
    target: Target
    schedule: Schedule
    latency_s: float

    @cached_property
    def compiled(self) -> Executable:
        """The machine code."""
        return Executable(self.schedule.mod, self.target)

    def __call__(self, *arguments: Any) -> None:
        """Runs it once; results are written into the output arguments, NumPy arrays or TVM tensors."""
        self.compiled(*arguments)

    def arguments(self) -> list[Any]:
        """Arguments of the right shapes and types, on the target's device: random numbers, the outputs
        overwritten by a call."""
        arguments = arguments_of(self.mod)
        return Inputs(arguments, runtime_of(self.target).device).call_arguments(arguments)


def load(work_dir: str | os.PathLike[str]) -> TunedProgram:
    """The best program of a run's folder. Raises ConfigError when it holds none."""
    folder = Path(work_dir)
    missing = [name for name in (WORKLOADS, RECORDS) if not (folder / name).is_file()]
    if missing and (folder / NAME).is_file() and not Journal.read(folder / NAME).header.timed:
        raise ConfigError(untimed(folder))
    if missing:
        raise ConfigError(
            f"{work_dir} has no {' and no '.join(missing)}. Give the work_dir of a finished run."
        )
    if '"Tensorize"' in (folder / RECORDS).read_text(encoding="utf-8"):
        fast_intrinsics()
    database = JSONDatabase(work_dir=str(folder))
    records = [record for record in database.get_all_tuning_records() if record.run_secs]
    if not records:
        raise ConfigError(f"{work_dir} holds no program that ran. Tune again with more trials.")
    best = min(records, key=_mean)
    schedule = database.query_schedule(best.workload.mod, best.target, "main")
    return TunedProgram(best.workload.mod, best.target, schedule, _mean(best))


def untimed(work_dir: str | os.PathLike[str]) -> str:
    """Why a run that only compiled has no best program, and what to do."""
    return (
        f"{work_dir} is of a run with measure=compile: nothing was timed, so no program is the best one and "
        "there is no database. Its curve.csv says what each program needs. Tune on a machine with the GPU "
        "(measure=local) for a program to load."
    )


def _mean(record: Any) -> float:
    return float(np.mean([float(seconds) for seconds in record.run_secs]))
