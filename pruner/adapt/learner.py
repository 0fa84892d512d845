"""Learning while tuning: measurements in, an adapted verifier out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING

from pruner.adapt.rule import AdaptationRule, Frozen
from pruner.costmodel.guard import GuardedVerifier, described
from pruner.costmodel.history import History
from pruner.costmodel.verifier import Verifier
from pruner.features.make import make_extractors
from pruner.measure.clock import stage

if TYPE_CHECKING:
    from pruner.analyzer.device import Device
    from pruner.measure.measurement import Measurement


class Learner:
    """A verifier, the rule that adapts it, and what was measured so far; a task is a group.

    `verifier` is what a search is given: the real one, guarded. say: takes a note for the user.
    """

    def __init__(
        self, verifier: Verifier, rule: AdaptationRule, device: Device, say: Callable[[str], None]
    ) -> None:
        self.verifier = GuardedVerifier(verifier, say)
        self._adapted = verifier
        self._rule = rule
        self._history = History(make_extractors(verifier.features, device))
        self._tasks = count()

    def new_task(self) -> int:
        """The number of a further task."""
        return next(self._tasks)

    def observe(self, measurements: Sequence[Measurement], task: int) -> None:
        """Adds a measured batch of one task and adapts the verifier."""
        training_set = None
        with self.verifier.learning("extracting its features"):
            self._history.add(measurements, task)
            training_set = self._history.training_set()
        if training_set is None:
            return
        what = f"adapt {type(self._rule).__name__} on {described(training_set)},"
        with stage("fit"), self.verifier.learning(what):
            self._rule.update(self._adapted, training_set)
        if not isinstance(self._rule, Frozen):
            self.verifier.expect_fitted(training_set)
