"""The contract of adaptation rules: what happens to the verifier after each round."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pruner.costmodel.verifier import TrainingSet, Verifier


class AdaptationRule(ABC):
    """The only caller of `Verifier.fit` while tuning."""

    @abstractmethod
    def update(self, verifier: Verifier, training_set: TrainingSet) -> None:
        """Adapts the verifier to everything measured so far."""


class Scratch(AdaptationRule):
    """Refits from scratch on the run's records at every round."""

    def update(self, verifier: Verifier, training_set: TrainingSet) -> None:
        verifier.fit(training_set)


class Frozen(AdaptationRule):
    """Leaves the verifier as it is (the paper's offline mode)."""

    def update(self, verifier: Verifier, training_set: TrainingSet) -> None:
        return None
