"""What a lowered program consists of: its stores, with the loops that run around each and what it touches,
and its intermediate buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.search.nest import Buffer, Extent, Linear, Loop, Statement

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Index = tuple[Linear, ...]


@dataclass(frozen=True, eq=False)
class Touch:
    """What a store does with one buffer. indices: those of all its accesses, the write first. plain: the same
    as the statement has them, over its own loops. written, read: whether it writes the buffer, whether it
    reads it."""

    buffer: Buffer
    indices: tuple[Index, ...]
    plain: tuple[Index, ...]
    written: bool
    read: bool


@dataclass(frozen=True, eq=False)
class Store:
    """One store for `m` candidates.

    loops: outside in. extents: `depth x m`. present: `depth x m` bool, whether the loop is there once those
        of one turn are dropped. joined: `depth x m` bool, whether it is fused into the loop outside of it.
    parallel, vector: `depth x m` bool, whether the loop is spread over cores, or a vector.
    pragma: bool[m], the outermost loop carries the pragma that unrolls.
    whole: bool[m], the statement's loops are one, split into chunks, the outermost loop, and lanes, the
        innermost.
    values: of the statement's loops that other loops run in place of, their values by those.
    touches: by buffer. constant: whether it stores a constant, as an initialisation does. operations: those
        of one instance.
    """

    statement: Statement
    loops: tuple[Loop, ...]
    extents: Floats
    present: Bools
    joined: Bools
    parallel: Bools
    vector: Bools
    pragma: Bools
    whole: Bools
    values: Mapping[Loop, Linear]
    touches: tuple[Touch, ...]
    constant: bool
    operations: int


@dataclass(frozen=True, eq=False)
class Memory:
    """Where an intermediate buffer lives. home: how many loops are around it. fixed: the loops that see a new
    copy at every turn, so that they do not move its elements. fixed_in: by dimension, those of them that move
    what is written. shape: its dimensions once it is shrunk. outer: how often all loops around it turn."""

    home: int
    outer: Extent
    fixed: frozenset[Loop]
    fixed_in: tuple[frozenset[Loop], ...]
    shape: tuple[Extent, ...]


@dataclass(frozen=True, eq=False)
class Lowered:
    """The stores of the nest around one statement, in program order, and its intermediate buffers."""

    stores: tuple[Store, ...]
    memories: Mapping[Buffer, Memory]
