"""Recorded tasks as places of a study: arms tune what others measured, in this process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from omegaconf import DictConfig

from experiments import output
from experiments.arm import Arm, ArmError, ArmRun, read_run
from experiments.block import Retimed
from experiments.place import Place, Program, Timings
from experiments.recorded import Reading, by_task
from pruner.config import compose
from pruner.display import Display
from pruner.errors import ConfigError, PrunerError
from pruner.features.make import features_kept_in
from pruner.measure.clock import Clock
from pruner.placement import given_device, placed_on_records
from pruner.records.read import read
from pruner.records.recorded_pool import RecordedPool
from pruner.tune import run
from pruner.workload import Task


@dataclass(frozen=True)
class Recorded(Place):
    """A task's records. Nothing is built or run, and seconds are the recorded ones and our own computing.

    data: the paths of all records. device: the option of `pruner tune` that they are from. cache: where the
    features of recorded programs are kept.
    """

    pool: RecordedPool
    data: tuple[str, ...]
    device: str
    batch: int
    trial_s: float
    cache: Path
    times_again: ClassVar[bool] = False

    @property
    def task(self) -> Task:  # type: ignore[override]  # the records know it
        return self.pool.task

    @property
    def overrides(self) -> Sequence[str]:  # type: ignore[override]  # they depend on the records
        return (
            "measure=replay",
            f"measure.trial_s={self.trial_s}",
            f"device={self.device}",
            f"batch={self.batch}",
        )

    @property
    def settings(self) -> Mapping[str, Any]:  # type: ignore[override]  # as above
        return {
            "data": [Path(path).name for path in self.data],
            "device": self.device,
            "batch": self.batch,
            "trial_s": self.trial_s,
            "programs": len(self.pool),
        }

    @cached_property
    def best_s(self) -> float:  # type: ignore[override]  # as above
        return float(np.nanmin(self.pool.latency_s))

    def as_recorded(self, trials: int) -> list[list[float]]:
        """[trial, share] in the order in which the records were made: the best latency over the lowest so
        far, 0 while there is none."""
        ordered = self.pool.latency_s[np.argsort(self.pool.order, kind="stable")][:trials]
        lowest = np.minimum.accumulate(np.nan_to_num(ordered, nan=np.inf))
        return [[number, self.best_s / one] for number, one in enumerate(lowest.tolist(), 1)]

    def run(self, arm: Arm, overrides: Sequence[str], folder: Path) -> ArmRun:
        shutil.rmtree(folder, ignore_errors=True)
        words = [os.path.expandvars(word) for word in (*overrides, *arm.overrides)]
        try:
            cfg = compose([*words, f"data={self.data[0]}", f"work_dir={folder}"])
            with features_kept_in(self.cache):
                tuned = run(cfg, Clock(), pool=self.pool, display=Display(), picture=False)
        except PrunerError as error:
            raise ArmError(str(error)) from error
        except (
            Exception
        ) as error:  # of a part of the user's own, say; the other arms go on, as processes would
            raise ArmError(f"{type(error).__name__}: {error}") from error
        if tuned.stopped or tuned.interrupted:
            # Whoever stops an arm that runs in this process stops the study.
            raise KeyboardInterrupt
        return read_run(folder)

    def retime(self, programs: Mapping[str, Program]) -> Timings:
        """What was recorded, which is what every arm has measured; nobody timed an untuned program."""
        return Timings({name: Retimed(program.own_s) for name, program in programs.items()}, None)


def recorded_places(cfg: DictConfig, cache: Path) -> tuple[dict[str, Recorded], list[str]]:
    """The tasks that a study replays, and what of the data takes no part, in words. Raises ConfigError for a
    task that has too few records, when none has enough, and for a device that they are not from."""
    paths = tuple(os.path.expandvars(path) for path in cfg.data)
    device = given_device(compose(["workload=GMM/0", f"device={cfg.device}"]).device)
    dataset, report = read(paths, progress=Reading(output.say))
    output.say(report.summary())
    places: dict[str, Recorded] = {}
    left_out = []
    for records in by_task(dataset, cfg.recorded, cfg.tasks):
        name, valid = records.tasks[0].id, int((records.failure == "").sum())
        reason = f"{len(records)} records"
        if len(records) >= cfg.programs and valid:
            pool = RecordedPool(records)
            if len(pool) >= cfg.programs:
                placed_on_records(device, pool.task, pool.machine)
                places[name] = Recorded(pool, paths, cfg.device, cfg.batch, cfg.trial_s, cache)
                continue
            reason = f"{len(pool)} distinct programs"
        elif not valid:
            reason = "no valid record"
        if cfg.tasks:
            raise ConfigError(
                f"tasks={name} has {reason}: a replay needs {cfg.programs} programs. Leave it out."
            )
        left_out.append(f"{name} ({reason})")
    if not places:
        raise ConfigError(
            f"no task has {cfg.programs} recorded programs: {', '.join(left_out) or 'no records'}."
        )
    return places, left_out
