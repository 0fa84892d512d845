"""The draft-then-verify search of a pool of recorded programs.

A recorded program was built, or failed, once: it is proposed without asking TVM what it makes of it today,
and is told from others by its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.draft import draft_scores
from pruner.search.candidate import Candidate
from pruner.search.latent import LatentSession
from pruner.search.population import Population

if TYPE_CHECKING:
    from pruner.analyzer.draft import DraftModel
    from pruner.costmodel.verifier import Verifier
    from pruner.search.latent import LatentSearch


class RankedPool(LatentSession):
    """Drafts a share of the pool's programs that are left, ranks it, takes the best: `ceil(share * n)` of n
    programs, or all of them where the verifier is what the search follows. `explored` counts those left.

    Programs that the draft scores alike stand in a random order, and those that the verifier scores alike in
    the draft's; what the verifier cannot score, because TVM makes no program of it today, comes last.
    """

    def __init__(
        self,
        settings: LatentSearch,
        draft: DraftModel,
        verifier: Verifier,
        pool: Population,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(settings, pool.space, draft, verifier, rng)
        self._pool = pool.space.unique(pool)
        self._hashes = self._pool.hashes()
        self._size = ceil(draft.share * len(self._pool))
        self._scores: NDArray[np.float64] | None = None

    def _drafted(self) -> Population:
        if self._scores is None:
            self._scores = draft_scores(self._draft, self._pool)
        left = np.flatnonzero(~np.isin(self._hashes, np.array(self._spent, dtype=np.uint64)))
        left = self._rng.permutation(left)
        ranked = left[np.argsort(self._scores[left], kind="stable")]
        kept = ranked if self._follows_verifier() else ranked[: self._size]
        self.explored += len(left)
        self.drafted += len(kept)
        return self._pool[kept]

    def _new(self, candidates: Sequence[Candidate]) -> list[int]:
        return list(range(len(candidates)))

    def _refused(self, rows: Population) -> None:
        """They can be had all the same."""

    def _hopeless(self) -> bool:
        return False
