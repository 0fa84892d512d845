"""Learning while tuning: measurements in, an adapted verifier out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from pruner.adapt.rule import AdaptationRule
from pruner.costmodel.history import History
from pruner.costmodel.verifier import Verifier
from pruner.features.make import make_extractors
from pruner.measure.clock import stage

if TYPE_CHECKING:
    from pruner.analyzer.device import Device
    from pruner.measure.measurement import Measurement


class Learner:
    """A verifier, the rule that adapts it, and what was measured so far; a task is a group."""

    def __init__(self, verifier: Verifier, rule: AdaptationRule, device: Device) -> None:
        self._verifier = verifier
        self._rule = rule
        self._history = History(make_extractors(verifier.features, device))
        self._tasks = count()

    def new_task(self) -> int:
        """The number of a further task."""
        return next(self._tasks)

    def observe(self, measurements: Sequence[Measurement], task: int) -> None:
        """Adds a measured batch of one task and adapts the verifier."""
        self._history.add(measurements, task)
        with stage("fit"):
            self._rule.update(self._verifier, self._history.training_set())
