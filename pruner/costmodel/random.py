"""The null verifier: scores that know nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.costmodel.verifier import TrainingSet, Verifier, check_model
from pruner.features.batch import FeatureBatch


class RandomVerifier(Verifier):
    """Ranks at random: what a draft is worth without a learned model.

    It asks for the cheap `symbols` only to know how many candidates there are.

    Args:
        seed: the same seed gives the same sequence of scores.
    """

    features = ("symbols",)
    fitted = True

    def __init__(self, *, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def fit(self, training_set: TrainingSet) -> None:
        return None

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        return self._rng.random(len(features["symbols"]))

    def state_dict(self) -> dict[str, Any]:
        return {"model": "random", "rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_model(state, "random")
        self._rng.bit_generator.state = state["rng"]
