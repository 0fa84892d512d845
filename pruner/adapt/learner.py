"""Learning while tuning: measurements in, an adapted verifier out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING

from pruner.adapt.rule import AdaptationRule
from pruner.costmodel.guard import GuardedVerifier, described
from pruner.costmodel.history import History
from pruner.costmodel.pretrained import check_kind
from pruner.costmodel.verifier import Verifier
from pruner.errors import ConfigError
from pruner.faults import faults_told
from pruner.features.make import make_extractors
from pruner.measure.clock import stage

if TYPE_CHECKING:
    from pruner.analyzer.device import Device
    from pruner.measure.measurement import Measurement


class Learner:
    """A verifier, the rule that adapts it, and what was measured so far; a task is a group.

    `verifier` is what a search is given: what the rule has prepared, guarded. say: takes a note for the user.

    Raises ConfigError when the rule refuses the verifier.
    """

    def __init__(
        self, verifier: Verifier, rule: AdaptationRule, device: Device, say: Callable[[str], None]
    ) -> None:
        self._adapted = _prepared(rule, verifier, device)
        self.verifier = GuardedVerifier(self._adapted, say)
        self._rule = rule
        self._history = History(make_extractors(self._adapted.features, device))
        self._tasks = count()

    def new_task(self) -> int:
        """The number of a further task."""
        return next(self._tasks)

    def observe(self, measurements: Sequence[Measurement], task: int) -> None:
        """Adds a measured batch of one task and adapts the verifier, where the rule ever does."""
        if not self._rule.learns:
            self.verifier.learns_nothing()
            return
        training_set = None
        with self.verifier.learning("extracting its features"):
            self._history.add(measurements, task)
            training_set = self._history.training_set()
        if training_set is None:
            return
        what = f"adapt {type(self._rule).__name__} on {described(training_set)},"
        with stage("fit"), self.verifier.learning(what):
            self._rule.update(self._adapted, training_set)
        self.verifier.expect_fitted(training_set)


def _prepared(rule: AdaptationRule, verifier: Verifier, device: Device) -> Verifier:
    if rule.checkpoint is not None:
        check_kind(rule.checkpoint, device)
    with faults_told(f"adapt {type(rule).__name__}: prepare", type(rule)):
        prepared = rule.prepare(verifier)
    if not isinstance(prepared, Verifier):
        raise ConfigError(
            f"adapt {type(rule).__name__}: prepare gave {prepared!r}, a {type(prepared).__name__}: return "
            "the verifier to rank with."
        )
    return prepared
