"""Fine-tuning: the pre-trained verifier trains on with the run's records."""

from __future__ import annotations

from pruner.adapt.pretrained import EPOCHS, pretrained
from pruner.adapt.rule import AdaptationRule
from pruner.costmodel.verifier import TrainingSet, Verifier, check_refines
from pruner.settings import whole


class FineTune(AdaptationRule):
    """Trains on from what the verifier knows, on all of the run's records, update after update.

    Args:
        checkpoint: where it starts, by name or path; None = the verifier is fitted already.
        epochs: of an update at most; for boosted trees, further trees.
        every: only each `every`-th update trains.
    """

    def __init__(self, *, checkpoint: str | None = None, epochs: int = EPOCHS, every: int = 1) -> None:
        whole(1, **{"adapt.epochs": epochs, "adapt.every": every})
        self.checkpoint = checkpoint
        self.epochs = epochs
        self.every = every
        self._updates = 0

    def prepare(self, verifier: Verifier) -> Verifier:
        check_refines(verifier)
        pretrained(verifier, self.checkpoint, "finetune")
        self._updates = 0
        return verifier

    def update(self, verifier: Verifier, training_set: TrainingSet) -> None:
        self._updates += 1
        if self._updates % self.every == 0:
            verifier.refine(training_set, epochs=self.epochs)
