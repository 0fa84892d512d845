"""The contract of draft models: a formula that scores a whole population without measuring anything."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.errors import ConfigError
from pruner.search.population import Population
from pruner.settings import positive, whole


class DraftModel(ABC):
    """Scores candidates from their decisions alone.

    Args:
        device: what the formula is evaluated for.
        explored: distinct rows scored a round.
        size: best rows kept for the verifier.
        random: random rows put beside them.
        share: of a pool of recorded programs, the share that is kept for the verifier; `explored`, `size` and
            `random` do not count then.
    """

    def __init__(
        self,
        *,
        device: Device,
        explored: int = 8000,
        size: int = 512,
        random: int = 32,
        share: float = 0.25,
    ) -> None:
        whole(1, explored=explored, size=size)
        whole(0, random=random)
        positive(share=share)
        if share > 1:
            raise ConfigError(f"share={share} is not accepted: give a number above 0, and at most 1.")
        self.device = device
        self.explored = explored
        self.size = size
        self.random = random
        self.share = share

    @abstractmethod
    def score(self, population: Population) -> NDArray[np.float64]:
        """Predicted seconds, float64[n]; lower is better, `inf` = does not fit the device. Deterministic."""


def draft_scores(draft: DraftModel, population: Population) -> NDArray[np.float64]:
    """`draft.score(population)`. Raises ConfigError when it breaks the contract."""
    scores = np.asarray(draft.score(population))
    check_scores(scores, len(population), f"draft model {type(draft).__name__}: score")
    return scores.astype(np.float64, copy=False)


def check_scores(scores: NDArray[Any], n: int, who: str) -> None:
    """Raises ConfigError for scores that are not one number per candidate."""
    if scores.shape != (n,):
        raise ConfigError(
            f"{who} gave an array of shape {scores.shape} for {n} candidates: return float64[n]."
        )
    if scores.dtype.kind not in "fiu" or np.isnan(scores).any():
        what = "NaN" if scores.dtype.kind == "f" else f"values of type {scores.dtype}"
        raise ConfigError(f"{who} gave {what}: every candidate needs a number.")


class NoDraft(DraftModel):
    """Knows nothing: every candidate scores 0, so the draft is a random one."""

    def score(self, population: Population) -> NDArray[np.float64]:
        return np.zeros(len(population))
