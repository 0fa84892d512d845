"""A population: candidates as rows of one integer matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pruner.search.candidate import Candidate
    from pruner.search.space import Space

# Fills the columns a sketch does not have; no decision takes this value.
UNUSED = -9


@lru_cache
def _weights(width: int) -> NDArray[np.uint64]:
    """Odd multipliers, the same in every process."""
    drawn = np.random.default_rng(0x5EED).integers(2**63, size=width, dtype=np.uint64)
    return drawn * np.uint64(2) + np.uint64(1)


class Population:
    """n rows of a space.

    sketch_ids: int64[n], which sketch a row belongs to.
    decisions: `n x space.width` int64; the row's first `sketch.width` columns hold tile factors, category
        indices and compute locations in the order of the sketch's genes, the rest UNUSED.
    """

    def __init__(self, space: Space, sketch_ids: NDArray[np.int64], decisions: NDArray[np.int64]) -> None:
        self.space = space
        self.sketch_ids = sketch_ids
        self.decisions = decisions

    def __len__(self) -> int:
        return len(self.sketch_ids)

    @overload
    def __getitem__(self, rows: int) -> Candidate: ...
    @overload
    def __getitem__(self, rows: slice | NDArray[np.int64] | NDArray[np.bool_]) -> Population: ...
    def __getitem__(
        self, rows: int | slice | NDArray[np.int64] | NDArray[np.bool_]
    ) -> Candidate | Population:
        """A candidate for an integer, a population for a slice, an index vector or a mask."""
        if isinstance(rows, (int, np.integer)):
            return self.space.candidate(int(self.sketch_ids[rows]), self.decisions[rows])
        return Population(self.space, self.sketch_ids[rows], self.decisions[rows])

    def __iter__(self) -> Iterator[Candidate]:
        return (self[i] for i in range(len(self)))

    @staticmethod
    def concat(parts: Sequence[Population]) -> Population:
        """The rows of all parts, in order; at least one part."""
        return Population(
            parts[0].space,
            np.concatenate([part.sketch_ids for part in parts]),
            np.concatenate([part.decisions for part in parts]),
        )

    def keys(self) -> NDArray[np.void]:
        """One fixed-size key per row; equal keys are equal rows. `keys()[i].tobytes()` is the key of
        candidate i."""
        rows = np.column_stack([self.sketch_ids, self.decisions])
        rows = np.ascontiguousarray(rows)
        return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()

    def hashes(self) -> NDArray[np.uint64]:
        """A 64-bit hash of every row, the same in every process; two distinct rows collide with a
        chance of about 2**-64, so sets of rows are kept as hashes."""
        weights = _weights(1 + self.decisions.shape[1])
        mixed = self.decisions.view(np.uint64) @ weights[1:]
        mixed += self.sketch_ids.view(np.uint64) * weights[0]
        mixed ^= mixed >> np.uint64(32)
        return mixed * np.uint64(0x9E3779B97F4A7C15)
