"""The contract of adaptation rules: what happens to the verifier after each round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from pruner.costmodel.pretrained import load_into
from pruner.costmodel.verifier import TrainingSet, Verifier


class AdaptationRule(ABC):
    """The only caller of `Verifier.fit` and `Verifier.refine` while tuning.

    learns: whether `update` ever changes anything; if not, no features of measured candidates are extracted.
    checkpoint: what `prepare` loads, by name or path, None = nothing.
    """

    learns: ClassVar[bool] = True
    checkpoint: str | None = None

    def prepare(self, verifier: Verifier) -> Verifier:
        """The verifier that the run ranks with and `update` is given; called once, before the first round.

        Raises ConfigError for a verifier that does not suit the rule, and for a checkpoint that does not suit
        the verifier.
        """
        return verifier

    @abstractmethod
    def update(self, verifier: Verifier, training_set: TrainingSet) -> None:
        """Adapts the verifier to everything measured so far."""


class Scratch(AdaptationRule):
    """Refits from scratch on the run's records at every round."""

    def update(self, verifier: Verifier, training_set: TrainingSet) -> None:
        verifier.fit(training_set)


class Frozen(AdaptationRule):
    """Leaves the verifier as it is (the paper's offline mode).

    Args:
        checkpoint: what it is before the first round, by name or path; None = what it is given as.
    """

    learns = False

    def __init__(self, *, checkpoint: str | None = None) -> None:
        self.checkpoint = checkpoint

    def prepare(self, verifier: Verifier) -> Verifier:
        if self.checkpoint is not None:
            load_into(verifier, self.checkpoint)
        return verifier

    def update(self, verifier: Verifier, training_set: TrainingSet) -> None:
        return None
