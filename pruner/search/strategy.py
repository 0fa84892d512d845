"""The contract of search strategies: one ask-and-tell session per task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pruner.search.candidate import Candidate
from pruner.search.population import Population

if TYPE_CHECKING:
    from pruner.analyzer.draft import DraftModel
    from pruner.costmodel.verifier import Verifier
    from pruner.measure.measurement import Measurement
    from pruner.search.space import Space


class Session(ABC):
    """The search of one task. `explored`, `drafted` and `verified` count candidates so far."""

    explored: int = 0
    drafted: int = 0
    verified: int = 0

    @abstractmethod
    def propose(self, n: int) -> list[Candidate]:
        """At most `n` candidates that were never measured; fewer or none when the space is exhausted."""

    def observe(self, measurements: Sequence[Measurement]) -> None:
        """Told once per proposed batch, in order, after measuring. Nothing to learn by default."""
        return None


class SearchStrategy(ABC):
    """Starts sessions. `ranks_pool`: can choose from a given pool (replay needs that).
    `uses_verifier`: proposals depend on the verifier, so the loop extracts features and adapts it."""

    ranks_pool: ClassVar[bool] = False
    uses_verifier: ClassVar[bool] = False

    @abstractmethod
    def start(
        self,
        space: Space,
        *,
        draft: DraftModel,
        verifier: Verifier,
        pool: Population | None,
        rng: np.random.Generator,
    ) -> Session:
        """A session on the space; with `pool`, only its rows may be proposed. They were recorded, so that
        each may be, whatever TVM makes of it today. Raises ConfigError for a pool where `ranks_pool` is
        false."""
