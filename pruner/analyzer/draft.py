"""The contract of draft models: a formula that scores a whole population without measuring anything."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.search.population import Population


class DraftModel(ABC):
    """Scores candidates from their decisions alone.

    Args:
        device: what the formula is evaluated for.
        explored: distinct rows scored a round.
        size: best rows kept for the verifier.
        random: random rows put beside them.
    """

    def __init__(self, *, device: Device, explored: int = 8000, size: int = 512, random: int = 32) -> None:
        self.device = device
        self.explored = explored
        self.size = size
        self.random = random

    @abstractmethod
    def score(self, population: Population) -> NDArray[np.float64]:
        """Predicted seconds, float64[n]; lower is better, `inf` = does not fit the device. Deterministic."""


class NoDraft(DraftModel):
    """Knows nothing: every candidate scores 0, so the draft is a random one."""

    def score(self, population: Population) -> NDArray[np.float64]:
        return np.zeros(len(population))
