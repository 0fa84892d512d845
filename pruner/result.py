"""What a run found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tvm.s_tir.meta_schedule.database import JSONDatabase

from pruner.errors import ConfigError
from pruner.executable import Executable
from pruner.measure.runtime import untuned
from pruner.records.database import TunedProgram, load, untimed
from pruner.report import Summary
from pruner.workload import Task

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TuneResult:
    """What a run found. summary: as in summary.json. curve: one row a trial (see report.curve).
    stopped: by the user, before its budget was spent; interrupted: in the middle of a batch, and then the
    best program was not confirmed."""

    task: Task
    work_dir: Path
    summary: Summary
    curve: pd.DataFrame
    stopped: bool = False
    interrupted: bool = False

    @property
    def best(self) -> TunedProgram | None:
        """The best program, or None when no candidate ran, or none was timed."""
        return load(self.work_dir) if self.summary.best_s is not None else None

    @property
    def database(self) -> JSONDatabase:
        """The run as a TVM database. Raises ConfigError for a run that timed nothing."""
        self._check_timed()
        return JSONDatabase(work_dir=str(self.work_dir))

    def compile(self) -> Executable:
        """The best program's machine code, called with NumPy arrays or TVM tensors; the untuned program's
        when none ran. Raises ConfigError for a run that timed nothing."""
        self._check_timed()
        best = self.best
        return (
            best.compiled
            if best is not None
            else Executable(untuned(self.task.mod, self.task.target), self.task.target)
        )

    def _check_timed(self) -> None:
        if self.summary.resources is not None:
            raise ConfigError(untimed(self.work_dir))
