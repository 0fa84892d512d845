"""Answers from records: a search is run again on what others measured, and nothing is built or run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pruner.errors import ConfigError
from pruner.measure.clock import charge
from pruner.measure.measurement import Measurement, Measurer
from pruner.records.machines import check_text
from pruner.records.recorded_pool import RecordedPool
from pruner.search.candidate import Candidate
from pruner.settings import positive


class ReplayMeasurer(Measurer):
    """Gives each candidate the latency, spread and failure that were recorded of it.

    The clock is charged what the trial took then. Records do not tell building from running, so all of it is
    charged to `run`. Beside it stands this run's own computing, in seconds of this machine.

        pool = RecordedPool.load("a100-resnet34", "7")
        pruner.tune(pool.task.mod, measurer=ReplayMeasurer(pool=pool), device="a100-40g", trials=100)

    Args:
        pool: the recorded programs; several measurers may share one.
        trial_s: seconds of a trial whose cost nobody kept (MetaSchedule's records).
        recorded: part of the name of the machine that the records must be from; None = any.
    """

    pool: RecordedPool

    def __init__(self, *, pool: RecordedPool, trial_s: float = 2.5, recorded: str | None = None) -> None:
        if not isinstance(pool, RecordedPool):
            raise ConfigError(
                f"measure=replay is given {type(pool).__name__} as its pool: name the records with "
                "data=PATH, or from Python give a RecordedPool."
            )
        positive(trial_s=trial_s)
        if recorded is not None:
            check_text(recorded, "measure.recorded")
        if recorded is not None and recorded not in pool.machine:
            raise ConfigError(
                f"measure.recorded={recorded} is not in the name of the machine of the records, "
                f"{pool.machine or '(unnamed)'}."
            )
        self.pool = pool
        self.machine = pool.machine
        self.trial_s = float(trial_s)
        self.recorded = recorded
        self._cost_s = np.where(np.isnan(pool.cost_s), self.trial_s, pool.cost_s)

    def measure(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        """As in Measurer. Raises ConfigError for a candidate that was not recorded."""
        measurements = self._recorded(candidates)
        for measurement in measurements:
            charge("run", measurement.run_s)
        return measurements

    def confirm(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        """What was recorded, again and at no cost; nothing is compared."""
        return self._recorded(candidates)

    def _recorded(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        return [self._one(candidate) for candidate in candidates]

    def _one(self, candidate: Candidate) -> Measurement:
        position = self.pool.position(candidate)
        if position is None:
            raise ConfigError(
                f"a candidate of {self.pool.task.name} was not recorded, and replay knows only recorded "
                f"programs, {len(self.pool)} of this task: propose rows of the pool."
            )
        cost_s = float(self._cost_s[position])
        failure = str(self.pool.failure[position])
        if failure:
            message = f"recorded as a {failure} failure"
            return Measurement(candidate, None, None, 0.0, cost_s, failure, message)
        spread_s = float(self.pool.spread_s[position])
        return Measurement(
            candidate,
            float(self.pool.latency_s[position]),
            None if np.isnan(spread_s) else spread_s,
            0.0,
            cost_s,
        )
