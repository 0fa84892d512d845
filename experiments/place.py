"""Where the arms of a study are run, and what the programs that they held best are worth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from experiments.arm import Arm, ArmRun
from experiments.block import Retimed
from pruner.workload import Task


@dataclass(frozen=True)
class Program:
    """trace: whole, as JSON values. own_s: seconds of a call as an arm that held it measured."""

    trace: Sequence[Any]
    own_s: float | None


@dataclass(frozen=True)
class Timings:
    """programs: by name. untuned_s: seconds of a call of the untuned program, None where it is not timed."""

    programs: dict[str, Retimed]
    untuned_s: float | None


class Place(ABC):
    """A workload on a device, or in records.

    task: what is tuned. overrides: of `pruner tune`, for all arms. settings: what blocks say of the place;
    those of other settings are another study's. best_s: the lowest latency there is, where that is known
    beforehand. times_again: whether programs are timed again, so that blocks keep their traces.
    """

    task: Task
    overrides: ClassVar[Sequence[str]] = ()
    settings: ClassVar[Mapping[str, Any]] = {}
    best_s: float | None = None
    times_again: ClassVar[bool] = True

    @abstractmethod
    def run(self, arm: Arm, overrides: Sequence[str], folder: Path) -> ArmRun:
        """Runs an arm to its end; `folder`, made anew, is its own. Raises ArmError."""

    @abstractmethod
    def retime(self, programs: Mapping[str, Program]) -> Timings:
        """The programs, by name, and the untuned one, all by the same measure."""
