"""Which records a study on records is about: read with progress, of one machine, task by task."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pruner.errors import ConfigError
from pruner.records.dataset import Dataset
from pruner.records.machines import check_one_machine, of_machines

# Seconds between two lines of progress while records are read.
_PATIENCE_S = 5.0


class Reading:
    """Says now and then how far reading is."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self._said > _PATIENCE_S:
            self._said = time.monotonic()
            self._say(f"{what}: {done:,} {f'of {total:,} ' if total else ''}records read")


def by_task(dataset: Dataset, recorded: str | None, names: Sequence[str]) -> list[Dataset]:
    """The records that are asked for, task by task.

    Args:
        recorded: part of the names of the machines; None = all. names: the tasks; empty = all.

    Raises ConfigError when there are none, or when a task's are of several machines: latencies compare within
    one.
    """
    dataset = of_machines(dataset, recorded)
    ids = [task.id for task in dataset.tasks]
    for name in names:
        if name not in ids:
            raise ConfigError(f"tasks={name}: there is no such task; there are {', '.join(ids) or 'none'}.")
    tasks = [dataset.of(name) for name in names or ids]
    tasks = [task for task in tasks if len(task) or recorded is None]
    for task in tasks:
        check_one_machine([task], f"the records of {task.tasks[0].id}")
    return tasks
