"""What TVM says of rows that a space takes for legal, and of rows that it refuses."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from pruner.errors import RejectedError
from pruner.search.materialise import materialise_many
from pruner.search.population import Population
from pruner.search.space import Space

# Random rows that refused ones are taken from; some reasons are rare.
POOL = 32_000


def some(rows: Population, n: int, rng: np.random.Generator) -> Population:
    """n random ones of the rows, or all where there are not more."""
    return rows[rng.permutation(len(rows))[:n]]


def accepted(rows: Population) -> tuple[NDArray[np.bool_], float]:
    """bool[n], which rows TVM accepts, and the seconds of asking with a thread a core."""
    candidates = list(rows)
    start = time.perf_counter()
    made = materialise_many(candidates)
    seconds = time.perf_counter() - start
    return np.array([not isinstance(one, RejectedError) for one in made], dtype=bool), seconds


def refused_rows(space: Space, n: int, rng: np.random.Generator) -> tuple[float, dict[str, Population]]:
    """The share of distinct random rows that the space takes for legal, and up to n of those it refuses, by
    reason.

    The reasons take turns. A row stands under one of its reasons, and rows that have only one go first:
    where two rules refuse a row, TVM's refusal says nothing of either.
    """
    rows = space.unique(space.sample(POOL, rng))
    refused = {reason: mask for reason, mask in space.reasons(rows).items() if mask.any()}
    if not refused:
        return 1.0, {}
    number = np.sum(list(refused.values()), axis=0)
    order = np.argsort(number, kind="stable")
    queues = {reason: iter(order[mask[order]].tolist()) for reason, mask in refused.items()}
    reason_of: dict[int, str] = {}
    while queues and len(reason_of) < n:
        for reason in list(queues):
            row = next((row for row in queues[reason] if row not in reason_of), None)
            if row is None:
                del queues[reason]
            elif len(reason_of) < n:
                reason_of[row] = reason
    by_reason = {
        reason: rows[np.array([row for row in reason_of if reason_of[row] == reason], dtype=np.int64)]
        for reason in refused
    }
    return float((number == 0).mean()), by_reason
