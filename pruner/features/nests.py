"""The loop nests of candidates of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import Schedule

from pruner.search.candidate import Candidate, RowCandidate, TraceCandidate
from pruner.search.nest import Nest
from pruner.search.population import Population
from pruner.search.tir_reader import read_nest


def nests(
    candidates: Population | Sequence[Candidate], *, replayed: bool = True
) -> Iterator[tuple[NDArray[np.int64], Nest]]:
    """The candidates' nests by group, with their positions. Those of which arrays do not tell the nest,
    traces and rows of unsupported sketches, are replayed one by one, or with `replayed=False` left out."""
    if isinstance(candidates, Population):
        yield from candidates.space.nests(candidates, replayed=replayed)
        return
    spaces: dict[int, list[tuple[int, RowCandidate]]] = {}
    for i, candidate in enumerate(candidates):
        if isinstance(candidate, RowCandidate):
            spaces.setdefault(id(candidate.space), []).append((i, candidate))
        elif replayed:
            yield np.array([i]), read_nest(_unprocessed(candidate))
    for members in spaces.values():
        positions = np.array([i for i, _ in members])
        rows = Population(
            members[0][1].space,
            np.array([candidate.sketch_id for _, candidate in members]),
            np.stack([candidate.row for _, candidate in members]),
        )
        for group, nest in rows.space.nests(rows, replayed=replayed):
            yield positions[group], nest


def _unprocessed(candidate: Candidate) -> Schedule:
    """The candidate's schedule before post-processing, as nests are read; the finished one where the
    candidate does not tell its task."""
    if not isinstance(candidate, TraceCandidate):
        return candidate.materialise()
    schedule = Schedule(candidate.task.mod)
    candidate.decided.apply_to_schedule(schedule, remove_postproc=True)
    return schedule
