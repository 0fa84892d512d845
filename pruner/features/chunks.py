"""Extraction in chunks, so that besides its result it takes no more memory for more candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pruner.features.batch import FeatureBatch
from pruner.search.candidate import Candidate
from pruner.search.population import Population

# Candidates at once: of rows, which take some ten kilobytes each, and of programs, which take a hundred times
# that.
ROWS = 2048
PROGRAMS = 128


def in_chunks(
    extract: Callable[[Population | Sequence[Candidate]], FeatureBatch],
    candidates: Population | Sequence[Candidate],
    size: int,
) -> FeatureBatch:
    """What `extract` gives for all candidates, which it is called with `size` at a time; of none, once."""
    starts = range(0, max(len(candidates), 1), size)
    return FeatureBatch.concat([extract(candidates[start : start + size]) for start in starts])
