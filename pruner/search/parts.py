"""A statement in the programs of many candidates: what their groups have in common, gathered."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.search.members import data, describe, places
from pruner.search.nest import Extent, Nest, Statement

Ints = NDArray[np.int64]

# Stands in `Part.fixed` for a number that differs by row.
MOVING = np.int64(np.iinfo(np.int64).min)
# How many of a part's numbers are its program's: data, parallel, vectorize, unroll.
COMMON = 4


@dataclass(frozen=True, eq=False)
class Part:
    """One statement in the programs of m candidates.

    key: parts with equal keys look alike and agree in `mixed`, that of `Place`. statement: one that looks
        like it, with numbers of its own.
    rows: int64[m], the candidates. places: `p x m`, `Place.numbers` of each.
    fixed: int64[k], the numbers: data, parallel, vectorize, unroll, then those of `describe`; MOVING for
        those that differ by row. moving: those, `j x m` int64, in order.
    """

    key: Hashable
    mixed: tuple[bool, ...]
    statement: Statement
    rows: Ints
    places: Ints
    fixed: Ints
    moving: Ints


def numbers_of(nest: Nest, bytes_: Extent, own: Iterable[Extent]) -> list[Extent]:
    """The numbers of a statement of the nest in the order of `Part.fixed`; `own`: those of `describe`."""
    return [bytes_, nest.parallel, nest.vectorize, nest.unroll, *own]


def parts_of(rows: Ints, nest: Nest) -> list[Part]:
    """The statements of one group's nest."""
    found = []
    bytes_ = data(nest.statements)
    for statement, place in zip(nest.statements, places(nest.statements), strict=True):
        look, own = describe(statement)
        numbers = numbers_of(nest, bytes_, own)
        moving = [number for number in numbers if isinstance(number, np.ndarray)]
        fixed = [MOVING if isinstance(number, np.ndarray) else number for number in numbers]
        found.append(
            Part(
                key=(look, place.mixed),
                mixed=place.mixed,
                statement=statement,
                rows=rows,
                places=np.repeat(np.array(place.numbers, dtype=np.int64)[:, None], len(rows), axis=1),
                fixed=np.array(fixed, dtype=np.int64),
                moving=np.array(moving, dtype=np.int64).reshape(-1, len(rows)),
            )
        )
    return found
