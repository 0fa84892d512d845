"""The loops of a CPU program that TVM fuses, into a parallel one and into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.codegen import Rewrite, rewrite
from pruner.analyzer.statements import batches
from pruner.search.nest import Nest

Bools = NDArray[np.bool_]

_NUMBERS = ("parallel_loops", "vector_loops", "chunks", "lanes")


@dataclass(frozen=True, eq=False)
class Fused:
    """What becomes of the loops of a statement. joined: `depth x m` bool, whether a loop is fused into the
    one outside of it. found: how many are, and into what; None on a GPU."""

    joined: Bools
    found: Rewrite | None = None


def fused_loops(nest: Nest, slots: Sequence[int]) -> dict[int, Fused]:
    """By statement, the loops that TVM fuses."""
    depths = {slot: len(nest.statements[slot].loops) for slot in slots}
    if not (np.any(nest.parallel) or np.any(nest.vectorize)):
        return {slot: Fused(np.zeros((depth, nest.rows), dtype=bool)) for slot, depth in depths.items()}
    parts = batches([(np.arange(nest.rows), nest)])
    pieces: dict[int, list[tuple[NDArray[np.int64], Rewrite, NDArray[np.bool_]]]] = {}
    for batch, found in zip(parts, rewrite(parts), strict=True):
        for slot in np.unique(batch.slot).tolist():
            pieces.setdefault(slot, []).append((batch.rows, found, batch.slot == slot))
    return {slot: _joined(depth, nest.rows, pieces[slot]) for slot, depth in depths.items()}


def _joined(depth: int, m: int, pieces: Sequence[tuple[NDArray[np.int64], Rewrite, Bools]]) -> Fused:
    numbers = {name: np.zeros(m, dtype=np.int64) for name in _NUMBERS}
    whole = np.zeros(m, dtype=bool)
    for rows, found, here in pieces:
        for name, column in numbers.items():
            column[rows[here]] = getattr(found, name)[here]
        whole[rows[here]] = found.whole[here]
    levels = np.arange(depth)[:, None]
    parallel = (levels > 0) & (levels < numbers["parallel_loops"])
    vector = levels > depth - numbers["vector_loops"]
    return Fused(parallel | vector, Rewrite(**numbers, whole=whole))
