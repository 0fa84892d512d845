"""MoA, Pruner's momentum online adaptation: every update starts from a slowly moving copy of the verifier."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.adapt.pretrained import EPOCHS, pretrained
from pruner.adapt.rule import AdaptationRule
from pruner.costmodel.verifier import TrainingSet, Verifier, check_refines
from pruner.errors import ConfigError
from pruner.settings import whole

Weights = dict[str, NDArray[Any]]


class Momentum(AdaptationRule):
    """A Siamese copy `phi` of the pre-trained weights, which is never trained itself. An update sets the
    target to phi, trains it on all of the run's records to theta, and moves phi by MoCo's rule (Pruner,
    figure 5): `phi <- momentum phi + (1 - momentum) theta`.

    The paper updates after every round. The released code (`few_shot`, `siamese_update`) does so at every
    fourth one, for 50 epochs, and moves weights but no BatchNorm statistics; in between the target that was
    trained last stays in use, as it does here.

    Args:
        checkpoint: where it starts, by name or path; None = the verifier is fitted already.
        momentum: 0 to 1; at 1 phi stays where it was; at 0, with `buffers`, it is fine-tuning.
        every: only each `every`-th update trains and moves phi.
        buffers: phi's BatchNorm statistics follow, too. Counts never do.
        epochs: of an update at most.
    """

    def __init__(
        self,
        *,
        checkpoint: str | None = None,
        momentum: float = 0.99,
        every: int = 1,
        buffers: bool = False,
        epochs: int = EPOCHS,
    ) -> None:
        whole(1, **{"adapt.epochs": epochs, "adapt.every": every})
        if not isinstance(momentum, (int, float)) or not 0 <= momentum <= 1:
            raise ConfigError(f"adapt.momentum={momentum} is not accepted: give a number from 0 to 1.")
        self.checkpoint = checkpoint
        self.momentum = momentum
        self.every = every
        self.buffers = buffers
        self.epochs = epochs
        self._updates = 0
        self._siamese: Mapping[str, Any] = {}

    def prepare(self, verifier: Verifier) -> Verifier:
        check_refines(verifier)
        if "weights" not in verifier.state_dict():
            raise ConfigError(
                f"adapt=momentum averages the weights of a network, and {type(verifier).__name__} has none; "
                "trees cannot be averaged: choose adapt=finetune, which continues boosting, or a network."
            )
        pretrained(verifier, self.checkpoint, "momentum")
        self._updates, self._siamese = 0, deepcopy(verifier.state_dict())
        return verifier

    def update(self, verifier: Verifier, training_set: TrainingSet) -> None:
        self._updates += 1
        if self._updates % self.every or not training_set.tells_apart:
            return
        verifier.load_state_dict(self._siamese)
        verifier.refine(training_set, epochs=self.epochs)
        target = verifier.state_dict()
        self._siamese = {**self._siamese, "weights": self._moved(self._siamese["weights"], target)}

    def _moved(self, siamese: Weights, target: Mapping[str, Any]) -> Weights:
        """phi after an update, in double precision, in which a hundredth of a small step is not lost."""
        still = set() if self.buffers else set(target.get("buffers", ()))
        moved = {}
        for name, theta in target["weights"].items():
            phi = siamese[name]
            if name not in still and np.issubdtype(theta.dtype, np.floating):
                phi = self.momentum * phi.astype(np.float64) + (1 - self.momentum) * theta
            moved[name] = phi
        return moved
