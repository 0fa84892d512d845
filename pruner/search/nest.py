"""A scheduled program as loop nests whose extents are numbers or vectors, one entry per candidate.

A `Nest` is what draft models and features read. It holds one *statement* per block, the loops around
it from the outside in, and every buffer access as integer expressions over those loops. Loops that two
statements share are the same `Loop` object, so the statements' order and their common prefixes are the
program's tree. Pruner (ASPLOS 2025, section 4.1) calls these the innermost buffer statements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

import numpy as np
from numpy.typing import NDArray

# A loop extent or a coefficient: one number for all rows, or int64[rows].
Extent = int | NDArray[np.int64]


def product(extents: Iterable[Extent]) -> Extent:
    """The product of all extents; an int when all are ints."""
    result: Extent = 1
    for extent in extents:
        result = result * extent
    return result


def minimum(a: Extent, b: Extent) -> Extent:
    """The smaller of two extents, row by row; an int when both are ints."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return np.minimum(a, b)


def greatest_divisor(a: Extent, b: Extent) -> Extent:
    """The greatest common divisor, row by row; an int when both are ints."""
    if isinstance(a, int) and isinstance(b, int):
        return gcd(a, b)
    if isinstance(a, int) and a == 1:
        return 1
    if isinstance(a, int) and a == 0:
        return np.abs(b)
    return np.gcd(a, b)


def _times(coefficient: Extent, value: Extent) -> Extent:
    """The product, without the work where it is nothing or the value itself."""
    if isinstance(value, int) and value == 0:
        return 0
    return value if isinstance(coefficient, int) and coefficient == 1 else coefficient * value


@dataclass(eq=False)
class Loop:
    """One loop. `kind` is serial, parallel, vectorized, unrolled or a thread tag: blockIdx.x, vthread.x,
    threadIdx.x. `annotations["software_pipeline_stage"]` of a pipelined loop: one int per part of its body,
    in order; absent from other loops."""

    extent: Extent
    kind: str = "serial"
    name: str = ""
    annotations: dict[str, object] = field(default_factory=dict)


@dataclass(eq=False)
class Buffer:
    """A tensor. `shape` entries may differ by row (an rfactor buffer); `argument` = a function parameter."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    itemsize: int
    scope: str = "global"
    argument: bool = False


@dataclass(frozen=True, eq=False)
class Linear:
    """`const + sum coefficient * term`; a term is a Loop or a floor division or remainder of a Linear.
    A coefficient that differs by row is nowhere negative, or nowhere positive."""

    terms: Mapping[Loop | Floor, Extent]
    const: Extent = 0

    def loops(self) -> set[Loop]:
        """Every loop the expression moves with, those inside floor terms too."""
        found: set[Loop] = set()
        for term in self.terms:
            if isinstance(term, Loop):
                found.add(term)
            else:
                found |= term.inner.loops()
        return found

    def at(self, point: Mapping[Loop, Extent]) -> Extent:
        """The value where the loops stand at `point`; loops that are not named stand at zero."""
        value = self.const
        for term, coefficient in self.terms.items():
            if isinstance(term, Loop):
                if term in point:
                    value = value + coefficient * point[term]
            else:
                value = value + coefficient * term.at(point)
        return value

    def range(self, relaxed: Collection[Loop]) -> tuple[Extent, Extent]:
        """Smallest and largest value while `relaxed` runs and all other loops stand at zero. Terms count
        as independent, which they are in the indices that schedules make."""
        low: Extent = self.const
        high: Extent = self.const
        for term, coefficient in self.terms.items():
            if isinstance(term, Loop):
                if term not in relaxed:
                    continue
                first: Extent = 0
                last: Extent = term.extent - 1
            else:
                first, last = term.range(relaxed)
            if isinstance(coefficient, int) and coefficient < 0:
                first, last = last, first
            a, b = _times(coefficient, first), _times(coefficient, last)
            if not isinstance(coefficient, int) and coefficient[0] <= 0:
                # One sign in all rows, so a positive first one settles it; zero can stand beside either.
                a, b = np.minimum(a, b), np.maximum(a, b)
            low, high = low + a, high + b
        return low, high

    def step(self, relaxed: Collection[Loop]) -> Extent:
        """The greatest common divisor of all moves while `relaxed` runs; 0 = it stands still."""
        result: Extent = 0
        for term, coefficient in self.terms.items():
            if isinstance(term, Loop):
                if term not in relaxed:
                    continue
                moves: Extent = (term.extent > 1) * coefficient
            else:
                moves = bool(term.inner.loops() & set(relaxed)) * coefficient
            result = greatest_divisor(result, moves)
        return result


@dataclass(frozen=True, eq=False)
class Floor:
    """`inner // divisor`, or `inner % divisor` when `remainder`."""

    inner: Linear
    divisor: Extent
    remainder: bool = False

    def at(self, point: Mapping[Loop, Extent]) -> Extent:
        """The value where the loops stand at `point`, as in `Linear.at`."""
        value = self.inner.at(point)
        return value % self.divisor if self.remainder else value // self.divisor

    def range(self, relaxed: Collection[Loop]) -> tuple[Extent, Extent]:
        """Smallest and largest value while `relaxed` runs and all other loops stand at zero. A remainder
        that wraps is taken to reach every residue its steps allow."""
        low, high = self.inner.range(relaxed)
        divisor = self.divisor
        from_zero = isinstance(low, int) and low == 0
        if from_zero and isinstance(high, int) and high == 0:
            return 0, 0
        if not self.remainder:
            return 0 if from_zero else low // divisor, high // divisor
        # Divisions take the time here, and few ranges wrap.
        block: Extent = 0 if from_zero else low // divisor
        inside = high < divisor if from_zero else block == high // divisor
        if np.all(inside):
            return (0, high) if from_zero else (low - block * divisor, high - block * divisor)
        step = greatest_divisor(self.inner.step(relaxed), divisor)
        if from_zero and isinstance(step, int) and step == 1:
            return 0, minimum(high, divisor - 1)
        least: Extent = low % step
        wrapped: Extent = least + (divisor - 1 - least) // step * step
        if inside is False:
            return least, wrapped
        first: NDArray[np.int64] = np.where(inside, low - block * divisor, least)
        last: NDArray[np.int64] = np.where(inside, high - block * divisor, wrapped)
        return first, last


@dataclass(eq=False)
class Access:
    """One read or write of a buffer: an index expression per dimension."""

    buffer: Buffer
    index: tuple[Linear, ...]

    def indexed_by(self, loop: Loop) -> bool:
        """Whether the accessed element moves with the loop (looking into floor terms too)."""
        return any(loop in index.loops() for index in self.index)

    def stride(self, loop: Loop) -> Extent:
        """Elements by which the row-major address moves when the loop advances once from zero."""
        moved: Extent = 0
        pitch: Extent = 1
        for index, dim in zip(reversed(self.index), reversed(self.buffer.shape), strict=True):
            for term, coefficient in index.terms.items():
                if term is loop:
                    moved = moved + pitch * coefficient
                elif isinstance(term, Floor) and loop in term.inner.loops():
                    moved = moved + pitch * coefficient * (term.at({loop: 1}) - term.at({}))
            pitch = pitch * dim
        return moved

    def widths(self, relaxed: Collection[Loop]) -> tuple[Extent, ...]:
        """Per dimension, the length of the range touched while the loops in `relaxed` run and all others
        stand at zero, clipped to the dimension: `1 + sum |c| (extent - 1)` for an affine index."""
        widths = []
        for index, dim in zip(self.index, self.buffer.shape, strict=True):
            low, high = index.range(relaxed)
            widths.append(minimum(high - low + 1, dim))
        return tuple(widths)

    def footprint(self, relaxed: Collection[Loop]) -> Extent:
        """Elements touched while `relaxed` runs: the product of `widths`."""
        return product(self.widths(relaxed))


@dataclass(eq=False)
class Statement:
    """One block: `ops` counts operations of one instance by kind (add, mul, div, mod, max, cmp, select,
    cast, exp, root, other), float and integer alike; address arithmetic is not counted, a padding test is a
    select.

    `fetch`: lanes of a cooperative fetch into shared memory, which all threads of the block share; 0 for a
    statement that is none. Post-processing splits its fused serial loop of E elements into
    ceil(E / (threads * lanes)) turns, the threads and the lanes; one lane where they do not divide E."""

    name: str
    loops: tuple[Loop, ...]
    reduces: frozenset[Loop]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    ops: Mapping[str, int]
    dtype: str
    has_init: bool = False
    fetch: Extent = 0

    @property
    def instances(self) -> Extent:
        """Times the statement runs: the product of its loops' extents."""
        return product(loop.extent for loop in self.loops)


@dataclass(eq=False)
class Nest:
    """A program of `rows` candidates that share a structure. The last three are the root block's
    MetaSchedule annotations: at most `parallel` fused outer iterations are spread over cores, at most
    `vectorize` innermost lanes, and bodies of up to `unroll` statements are unrolled (0 = not asked for)."""

    rows: int
    statements: Sequence[Statement]
    parallel: Extent = 0
    vectorize: Extent = 0
    unroll: Extent = 0
