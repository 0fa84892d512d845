"""Candidates of any kind as rows of decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pruner.search.candidate import Candidate, RowCandidate
from pruner.search.population import Population
from pruner.search.sketch import Sketch


def by_sketch(
    candidates: Population | Sequence[Candidate],
) -> Iterator[tuple[NDArray[np.int64], Sketch, NDArray[np.int64]]]:
    """The candidates by sketch: int64[m] positions, the sketch, and `m x d` int64 decisions, of which the
    first columns are the sketch's; of traces, as they stand before TVM applies them."""
    if isinstance(candidates, Population):
        for index in np.unique(candidates.sketch_ids).tolist():
            positions = np.flatnonzero(candidates.sketch_ids == index)
            yield positions, candidates.space.sketches[index], candidates.decisions[positions]
        return
    groups: dict[str, tuple[Sketch, list[int], list[NDArray[np.int64]]]] = {}
    for position, candidate in enumerate(candidates):
        if isinstance(candidate, RowCandidate):
            sketch = candidate.space.sketches[candidate.sketch_id]
            row = candidate.row[: sketch.width]
        else:
            trace = candidate.decided.simplified(remove_postproc=True)
            sketch = Sketch.of(trace)
            row = sketch.row(trace)
        _, positions_of, rows_of = groups.setdefault(sketch.signature, (sketch, [], []))
        positions_of.append(position)
        rows_of.append(row)
    for sketch, positions_of, rows_of in groups.values():
        yield np.array(positions_of), sketch, np.stack(rows_of)


def chosen(
    candidates: Population | Sequence[Candidate], positions: NDArray[np.int64]
) -> Population | Sequence[Candidate]:
    """Those at these positions, in this order."""
    if isinstance(candidates, Population):
        return candidates[positions]
    return [candidates[i] for i in positions]
