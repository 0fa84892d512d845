"""The loops of a CPU program that TVM fuses, into a parallel one and into vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def all_fused(
    groups: Sequence[tuple[NDArray[np.int64], Nest]],
) -> Iterator[tuple[NDArray[np.int64], Nest, list[Fused]]]:
    """The groups, as `nests` yields them, each with what TVM fuses of its statements' loops. Statements that
    look alike are rewritten together, whatever groups they are from."""
    parts = batches([group for group in groups if _asked(group[1])])
    rows = 1 + max((int(part.rows.max()) for part in parts), default=-1)
    slots = 1 + max((int(part.slot.max()) for part in parts), default=-1)
    numbers = {name: np.zeros((slots, rows), dtype=np.int64) for name in _NUMBERS}
    whole = np.zeros((slots, rows), dtype=bool)
    for part, found in zip(parts, rewrite(parts), strict=True):
        for name, table in numbers.items():
            table[part.slot, part.rows] = getattr(found, name)
        whole[part.slot, part.rows] = found.whole
    for own, nest in groups:
        fused = []
        for slot, statement in enumerate(nest.statements):
            depth = len(statement.loops)
            if _asked(nest):
                here = {name: table[slot, own] for name, table in numbers.items()}
                fused.append(_fused(depth, Rewrite(**here, whole=whole[slot, own])))
            else:
                fused.append(Fused(np.zeros((depth, nest.rows), dtype=bool)))
        yield own, nest, fused


def _asked(nest: Nest) -> bool:
    """Whether anything may be fused, as on a CPU."""
    return bool(np.any(nest.parallel) or np.any(nest.vectorize))


def _fused(depth: int, found: Rewrite) -> Fused:
    levels = np.arange(depth)[:, None]
    parallel = (levels > 0) & (levels < found.parallel_loops)
    vector = levels > depth - found.vector_loops
    return Fused(parallel | vector, found)
