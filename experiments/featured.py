"""The programs of a data set's tasks with the features that verifiers see, kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from experiments.cost_model_report import described
from experiments.programs import TaskPrograms, task_programs
from pruner.analyzer.calibrate import cache_folder
from pruner.analyzer.device import Device
from pruner.errors import ConfigError
from pruner.features.batch import FeatureExtractor
from pruner.features.make import features_kept_in, make_extractors
from pruner.records.dataset import Dataset


def featured(
    tasks: Sequence[Dataset],
    device: Device,
    features: Collection[str],
    cache: str | None,
    say: Callable[[str], None],
) -> tuple[list[TaskPrograms], list[str]]:
    """The tasks that have a program that ran, and the names of those that have none.

    Args:
        tasks: data sets of one task. features: by name. cache: where features are kept; None = the user's
            cache folder. say: shows a line of progress a task.

    Raises ConfigError when no task has a program that ran.
    """
    names = sorted(features)
    folder = Path(cache or cache_folder().parent / "features")

    def extractors(seen: Device) -> dict[str, FeatureExtractor]:
        with features_kept_in(folder):
            return make_extractors(names, seen) if names else {}

    found: list[TaskPrograms] = []
    left_out = []
    for number, records in enumerate(tasks, 1):
        task = task_programs(records, device, extractors)
        if task is None:
            left_out.append(records.tasks[0].id)
            say(f"{number}/{len(tasks)}  {left_out[-1]}  left out: no valid record of it can be replayed")
            continue
        found.append(task)
        say(f"{number}/{len(tasks)}  {described(task)}")
    if not found:
        raise ConfigError("no task of the data has a valid record: give other records.")
    return found, left_out
