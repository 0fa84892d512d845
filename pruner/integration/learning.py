"""Verifier training where TVM owns the loop: one verifier learns from all tasks of a tuning run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pruner.analyzer.device import Device
from pruner.costmodel.history import History
from pruner.costmodel.verifier import TrainingSet, Verifier
from pruner.features.batch import FeatureBatch
from pruner.features.make import make_extractor

if TYPE_CHECKING:
    from pruner.adapt.rule import AdaptationRule
    from pruner.measure.measurement import Measurement


class SharedLearning:
    """A verifier, its rule and the records of every task so far; a task is a group."""

    def __init__(self, verifier: Verifier, adaptation: AdaptationRule, device: Device) -> None:
        self._verifier = verifier
        self._adaptation = adaptation
        self._extractors = [make_extractor(name, device) for name in verifier.features]
        self._histories: dict[Hashable, History] = {}
        self._order: dict[Hashable, list[int]] = {}
        self._measured = 0

    def observe(self, task: Hashable, measurements: Sequence[Measurement]) -> None:
        """Adds one measured batch of the task and adapts the verifier."""
        history = self._histories.setdefault(task, History(self._extractors))
        history.add(measurements)
        positions = range(self._measured, self._measured + len(measurements))
        self._order.setdefault(task, []).extend(positions)
        self._measured += len(measurements)
        self._adaptation.update(self._verifier, self._training_set())

    def _training_set(self) -> TrainingSet:
        sets = [history.training_set() for history in self._histories.values()]
        return TrainingSet(
            features={
                name: FeatureBatch.concat([one.features[name] for one in sets])
                for name in self._verifier.features
            },
            labels=np.concatenate([one.labels for one in sets]),
            group=np.repeat(np.arange(len(sets)), [len(one) for one in sets]),
            order=np.concatenate([np.array(order) for order in self._order.values()]),
        )
