"""What was recorded of one task, as a population to choose from: the pool of a replay."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from pruner.errors import ConfigError, RejectedError
from pruner.records.dataset import Dataset
from pruner.records.machines import check_one_machine, of_machines
from pruner.records.read import read
from pruner.records.reading import Progress
from pruner.records.spaces import find_rows
from pruner.search.candidate import Candidate, RowCandidate
from pruner.search.population import Population
from pruner.workload import Task

_COLUMNS = ("latency_s", "spread_s", "failure", "cost_s", "order")


class RecordedPool(Population):
    """The n distinct programs of a task that were recorded, failed ones included. Of a row that was recorded
    several times the first record counts. Nothing changes it, so that any number of runs may share one.

    The rows stand in an order of their own, by sketch and decisions: when they were recorded does not show.

    Attributes:
        machine: that measured them, as `Dataset.device` has it.
        latency_s, spread_s: float64[n], seconds, NaN as in Dataset.
        failure: str[n], one of `measure.measurement.FAILURES`; empty for a program that ran.
        cost_s: float64[n], seconds that building and running took together; NaN where nobody kept them.
        order: int64[n], when it was first recorded.
        unusable: records that are no row of any space, left out; repeated: those of a row already recorded.
    """

    def __init__(self, records: Dataset, *, skipped: int = 0) -> None:
        """records: of one task and one machine. skipped: how many more a reader has left out. Raises
        ConfigError for others, and where TVM makes a row of no record."""
        check_one_machine([records], "the records of a pool", "measure.recorded")
        found = find_rows(records)
        if found.rows is None:
            reason = next(iter(found.refused.values()), "there are none")
            raise ConfigError(
                f"none of the {len(records)} records of {records.tasks[0].id} can be replayed: {reason}."
            )
        earliest_first = np.argsort(records.order[found.kept], kind="stable")
        kept, rows = found.kept[earliest_first], found.rows[earliest_first]
        _, first = np.unique(rows.hashes(), return_index=True)
        kept, rows = kept[first], rows[first]
        names = [sketch.signature for sketch in rows.space.sketches]
        rank = np.array([sorted(names).index(name) for name in names])[rows.sketch_ids]
        canonical = np.lexsort((*rows.decisions.T[::-1], rank))
        kept, rows = kept[canonical], rows[canonical]
        super().__init__(rows.space, rows.sketch_ids, rows.decisions)
        self.machine = str(records.device[0])
        self.latency_s, self.spread_s, self.failure, self.cost_s, self.order = (
            getattr(records, name)[kept] for name in _COLUMNS
        )
        self.unusable = len(records) - len(found.kept) + skipped
        self.repeated = len(found.kept) - len(kept)
        for column in (self.sketch_ids, self.decisions, *(getattr(self, name) for name in _COLUMNS)):
            column.flags.writeable = False
        self._positions = {key.tobytes(): position for position, key in enumerate(self.keys())}

    @classmethod
    def load(
        cls,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        task: str | int,
        *,
        recorded: str | None = None,
        progress: Progress | None = None,
    ) -> RecordedPool:
        """The pool of a task of any records.

        Args:
            paths: what `records.read` reads. progress: as there.
            task: its id. recorded: part of the name of the machine, where the records are of several.

        Raises ConfigError for an id that the records do not have, with those that they have, and for records
        of several machines.
        """
        dataset, report = read(paths, progress=progress)
        task = str(task)  # Python knows numbers, too
        try:
            records = dataset.of(task)
        except ConfigError as error:
            left_out = f" Of {report.summary()}" if report.skipped and not dataset.tasks else ""
            raise ConfigError(f"workload={task} names no recorded task: {error}{left_out}") from error
        skipped = sum(report.by_task.get(task, {}).values())
        return cls(of_machines(records, recorded, "measure.recorded"), skipped=skipped)

    @property
    def task(self) -> Task:
        """What the programs compute, for the target that they were recorded for."""
        return self.space.task

    def position(self, candidate: Candidate) -> int | None:
        """Which row the candidate is, whatever space of the task it is from; None when it was not
        recorded."""
        if isinstance(candidate, RowCandidate) and candidate.space is self.space:
            return self._positions.get(candidate.key)
        try:
            row = self.space.encode(candidate.decided)
        except (ConfigError, RejectedError):
            return None
        return self._positions.get(row.keys()[0].tobytes())
