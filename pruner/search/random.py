"""Random search: the null search strategy. Draws as `Space.sample` does: a sketch, then each decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pruner.measure.clock import stage
from pruner.search.candidate import Candidate
from pruner.search.materialise import HOPELESS, new_programs
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.search.strategy import SearchStrategy, Session

if TYPE_CHECKING:
    from pruner.analyzer.draft import DraftModel
    from pruner.costmodel.verifier import Verifier

# Spaces up to this many rows are enumerated and shuffled, so that they are measured to the last program.
ENUMERATED = 4096
# Rows drawn at once from a larger space.
BLOCK = 256
# This many blocks in a row without a new legal row mean that the space is used up.
BARREN = 20


class RandomSearch(SearchStrategy):
    """Proposes distinct random programs; uses neither draft nor verifier."""

    ranks_pool: ClassVar[bool] = True

    def start(
        self,
        space: Space,
        *,
        draft: DraftModel,
        verifier: Verifier,
        pool: Population | None,
        rng: np.random.Generator,
    ) -> Session:
        return RandomSession(space, rng) if pool is None else ShuffledPool(pool, rng)


class RandomSession(Session):
    """`explored` counts the distinct legal rows looked at."""

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._space = space
        self._rng = rng
        self._rows = self._blocks()
        self._left: list[Candidate] = []
        self._programs: set[int] = set()

    def propose(self, n: int) -> list[Candidate]:
        batch: list[Candidate] = []
        while len(batch) < n:
            wanted = n - len(batch)
            while len(self._left) < wanted:
                with stage("draft"):
                    block = next(self._rows, None)
                if block is None:
                    break
                self._left += list(block)
            tried, self._left = self._left[:wanted], self._left[wanted:]
            if not tried:
                break
            self.explored += len(tried)
            with stage("materialise"):
                new = new_programs(tried, self._programs)
            batch += [tried[i] for i in new]
            if not self._programs and self.explored >= HOPELESS:
                break
        return batch

    def _blocks(self) -> Iterator[Population]:
        """Distinct legal rows in random order, no row twice."""
        space, rng = self._space, self._rng
        everything = space.enumerate(ENUMERATED)
        if everything is not None:
            rows = everything[space.legal(everything)]
            yield rows[rng.permutation(len(rows))]
            return
        seen = np.empty(0, dtype=np.uint64)
        barren = 0
        while barren < BARREN:
            rows = space.unique(space.sample_legal(BLOCK, rng))
            rows = rows[~np.isin(rows.hashes(), seen)]
            seen = np.concatenate([seen, rows.hashes()])
            barren = 0 if len(rows) else barren + 1
            yield rows


class ShuffledPool(Session):
    """The programs of a pool in random order, whatever TVM makes of them today. `explored` counts those
    proposed."""

    def __init__(self, pool: Population, rng: np.random.Generator) -> None:
        rows = pool.space.unique(pool)
        self._left = rows[rng.permutation(len(rows))]

    def propose(self, n: int) -> list[Candidate]:
        batch, self._left = list(self._left[:n]), self._left[n:]
        self.explored += len(batch)
        return batch
