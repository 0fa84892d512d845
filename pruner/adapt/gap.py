"""TenSet's residual model: the pre-trained verifier stays, and a small model learns what it misses."""

from __future__ import annotations

from importlib import import_module

from pruner.adapt.pretrained import pretrained
from pruner.adapt.rule import AdaptationRule
from pruner.costmodel.verifier import TrainingSet, Verifier
from pruner.settings import positive, whole


class GapModel(AdaptationRule):
    """Ranks by the pre-trained verifier plus a small network that is fitted anew at every update to what the
    verifier misses on the run's records (TenSet, `plus_mix_task`); see costmodel.gap.GapVerifier.

    Args:
        checkpoint: of the verifier, by name or path; None = it is fitted already.
        epochs: of an update; rate: of learning. seed: of the small network's first weights.
    """

    def __init__(
        self, *, checkpoint: str | None = None, epochs: int = 50, rate: float = 7e-4, seed: int = 0
    ) -> None:
        whole(1, **{"adapt.epochs": epochs})
        positive(**{"adapt.rate": rate})
        self.checkpoint = checkpoint
        self.epochs = epochs
        self.rate = rate
        self._seed = seed

    def prepare(self, verifier: Verifier) -> Verifier:
        # A module that needs PyTorch.
        module = import_module("pruner.costmodel.gap")
        pretrained(verifier, self.checkpoint, "gap")
        made: Verifier = module.GapVerifier(
            base=verifier, epochs=self.epochs, rate=self.rate, seed=self._seed
        )
        return made

    def update(self, verifier: Verifier, training_set: TrainingSet) -> None:
        verifier.fit(training_set)
