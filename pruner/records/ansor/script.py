"""A schedule as data: its form, which programs of one sketch share, apart from its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

# Loops are numbered in the order in which a script makes them; blocks are named as the program names them.


class Loops(NamedTuple):
    """The loops of an untouched block, from outside in."""

    block: str
    made: tuple[int, ...]


class Tile(NamedTuple):
    """A loop becomes loops whose extents are sampled factors of its own."""

    loop: int
    made: tuple[int, ...]


class Reorder(NamedTuple):
    """Loops of one chain, in their new order."""

    loops: tuple[int, ...]


class Fuse(NamedTuple):
    """Neighbouring loops become one."""

    loops: tuple[int, ...]
    made: int


class Bind(NamedTuple):
    """A loop runs over blockIdx.x, vthread.x or threadIdx.x."""

    loop: int
    thread: str


class CacheWrite(NamedTuple):
    """The block computes into `scope`; a copy under the loop moves what was computed to the buffer."""

    block: str
    loop: int
    scope: str


class Fetch(NamedTuple):
    """The block reads a buffer from a copy in `scope`, which all threads fill under the loop."""

    block: str
    buffer: str
    loop: int
    scope: str


class Move(NamedTuple):
    """A producer is computed under a loop of its consumer."""

    block: str
    loop: int


class Inline(NamedTuple):
    """A producer is computed where it is read."""

    block: str


Step: TypeAlias = Loops | Tile | Reorder | Fuse | Bind | CacheWrite | Fetch | Move | Inline


@dataclass(frozen=True)
class Script:
    """What programs with the same form have in common. spreads, vectors, unrolls: whether it says how far
    loops are spread over cores, made vectors and unrolled."""

    steps: tuple[Step, ...]
    spreads: bool
    vectors: bool
    unrolls: bool


@dataclass(frozen=True)
class Numbers:
    """What sets a program apart from others of its form.

    tiles: factors, outermost first, of every Tile in order. lanes: of every Fetch in order. parallel: the
    iterations that are spread over cores. vector: lanes of the innermost loop. unroll: statements that are
    unrolled at most. The last three are 0 where a program has nothing of the kind.
    """

    tiles: tuple[tuple[int, ...], ...]
    lanes: tuple[int, ...]
    parallel: int = 0
    vector: int = 0
    unroll: int = 0
