"""The programs of all tasks in one row: what is trained on and scored, by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.kin import families
from experiments.programs import TaskPrograms
from experiments.ranking import Ranked, ranked
from experiments.splits import Programs
from pruner.costmodel.history import relative
from pruner.costmodel.verifier import TrainingSet
from pruner.features.batch import FeatureBatch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Pool:
    """tasks: at least one. programs: of all tasks, task after task. latency_s: float64[n], seconds; NaN for a
    program that never ran."""

    def __init__(self, tasks: Sequence[TaskPrograms]) -> None:
        self.tasks = list(tasks)
        self.programs = Programs(
            np.repeat(np.arange(len(tasks)), [len(task) for task in tasks]),
            np.concatenate([task.order for task in tasks]),
            families([task.mod for task in tasks]),
        )
        self.latency_s: Floats = np.concatenate([task.latency_s for task in tasks])
        names = tasks[0].features
        self._features = {
            name: FeatureBatch.concat([task.features[name] for task in tasks]) for name in names
        }

    def training_set(self, positions: Ints, features: Sequence[str]) -> TrainingSet:
        """These programs with their labels: the best latency of their task among them over their own, 0 for
        one that never ran."""
        task = self.programs.task[positions]
        latency = np.nan_to_num(self.latency_s[positions], nan=np.inf)
        return TrainingSet(
            self.features(positions, features), relative(latency, task), task, self.programs.order[positions]
        )

    def features(self, positions: Ints, names: Sequence[str]) -> dict[str, FeatureBatch]:
        """These programs' features, by name."""
        return {name: self._features[name].take(positions) for name in names}

    def ranked(self, positions: Ints, scores: Floats) -> list[tuple[int, Ranked]]:
        """How the scores of these programs rank those of them that ran, by task; tasks without one are not
        in it."""
        found = []
        ran = ~np.isnan(self.latency_s[positions])
        for task in range(len(self.tasks)):
            own = ran & (self.programs.task[positions] == task)
            if own.any():
                found.append((task, ranked(scores[own], self.latency_s[positions[own]])))
        return found
