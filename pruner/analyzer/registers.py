"""What LLVM makes of a statement's inner loops: vectors, registers, and what moves between them.

Found by reading the machine code of random schedules: TVM hands LLVM vectors as long as its vector loop;
without one LLVM vectorises a loop itself if everything inside it is unrolled. Accumulators stay in
registers over the loops around them when the loops between are unrolled, whether by TVM's pragma or,
for small bodies, by LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.codegen import Rewrite
from pruner.analyzer.footprints import Reach
from pruner.analyzer.roles import ROLES, Roles
from pruner.analyzer.statements import StatementBatch
from pruner.search.nest import Access, Floor, Loop

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# LLVM unrolls a loop nest completely up to about this many vector statements, pragma or not.
LLVM_UNROLL = 64


@dataclass(frozen=True, eq=False)
class RegisterTile:
    """The innermost code of a statement, one entry per row.

    lanes: elements a vector instruction works on (1 = scalar), the last of a long vector averaged in.
    vectors: registers that one vector of the schedule takes.
    instances: vector instructions for one operation of every instance of the statement.
    own: LLVM found the vector, not TVM. straight: TVM unrolls the loop that LLVM would need for that.
    tile, wide: accumulator registers of the register tile S3, and of S2 and S3 together.
    inner: reduction steps R1. kept: vector operations per load and store of an accumulator.
    promoted: accumulators stay in registers over the outer reduction R0.
    unrolled: `3 x m`: the register tile, also R1, also S2 are straight-line code.
    chains: independent accumulations in flight.
    loads: registers loaded per vector operation, `gathered` those that need a load per lane.
    scattered: a store per lane.
    spilled: share of the accumulators that find no register.
    reloaded: operands per vector operation that straight-line code of S2 finds no register for until it
        meets them again.
    body: vector operations in one iteration of the innermost loop that remains.
    local: a copy into an intermediate so small that it is unrolled and held in registers.
    """

    lanes: Floats
    vectors: Floats
    instances: Floats
    own: Bools
    straight: Bools
    tile: Floats
    wide: Floats
    inner: Floats
    kept: Floats
    promoted: Bools
    unrolled: Bools
    chains: Floats
    loads: Floats
    gathered: Floats
    scattered: Bools
    spilled: Floats
    reloaded: Floats
    body: Floats
    local: Bools


def register_tile(
    batch: StatementBatch,
    loops: tuple[Loop, ...],
    extents: Floats,
    code: Rewrite,
    touched: Reach,
    roles: Roles,
    *,
    lanes: int,
    registers: int,
) -> RegisterTile:
    """The register tile of a batch. loops, extents (`depth x m`): those of its loops that matter, outside
    in, and `roles` theirs; lanes: elements in a vector register; registers: vector registers of a core."""
    depth, m = extents.shape
    pragma = np.where(batch.unrolls, batch.unroll, 0).astype(np.float64)
    limit = np.maximum(pragma, LLVM_UNROLL)
    strides = [_Strides(access, loops, m) for access in touched.accesses]

    vector = np.zeros((depth, m), dtype=bool)
    positions = [batch.statement.loops.index(loop) for loop in loops]
    for level, position in enumerate(positions):
        vector[level] = (code.lanes > 1) & (position >= len(batch.statement.loops) - code.vector_loops)
    own, inside = _loop_vectorised(batch, loops, extents, code, strides, limit)
    vector |= own
    found = np.asarray(own.any(axis=0))
    length = np.where(found, (own * extents).sum(axis=0), code.lanes.astype(np.float64))
    # The vector runs along the innermost of its loops that has more than one iteration.
    walked = vector & (extents > 1)
    along = depth - 1 - np.argmax(walked[::-1], axis=0) if depth else np.zeros(m, dtype=np.int64)

    vectors = np.ceil(length / lanes)
    rest = np.where(vector, 1.0, extents)
    spans = {role: roles.span(role, loops) for role in ROLES}

    def span(role: str) -> Floats:
        return np.asarray(np.prod(rest[spans[role]], axis=0))

    s2, r1 = span("S2"), span("R1")
    tile = span("S3") * vectors
    wide = tile * s2
    body_limit = np.maximum(pragma * vectors, LLVM_UNROLL)
    unrolled3 = tile <= body_limit
    unrolled1 = unrolled3 & (tile * r1 <= body_limit)
    unrolled2 = unrolled1 & ((wide * r1 <= body_limit) | (s2 == 1))
    promoted = unrolled2 & (wide <= LLVM_UNROLL)
    r0_run = _streak(rest[spans["R0"]], wide * r1, body_limit)
    r1_run = _streak(rest[spans["R1"]], tile, body_limit)
    kept = np.where(promoted, r1 * r0_run, np.where(unrolled1, r1, np.where(unrolled3, r1_run, 1.0)))
    chains = np.where(promoted, wide, np.where(unrolled1, np.maximum(tile, 8.0), tile))

    held = np.where(promoted, wide, tile)
    usable = registers - max(3, registers // 5)  # operands and addresses need some
    spilled = np.where(unrolled3, np.maximum(held - usable, 0) / held, 0)
    spilled = np.where(promoted, spilled / r1, spilled)

    loads, gathered, scattered, again = _operands(
        touched, strides, spans, rest, walked, along, vectors, (tile, wide), unrolled2, registers
    )
    reloaded = np.where(unrolled2 & (s2 > 1), np.maximum(again - usable, 0.0) / (wide * r1), 0.0)
    body = np.where(unrolled1, np.where(unrolled2, wide * r1, tile * r1), np.where(unrolled3, tile, vectors))
    home = batch.homes[len(batch.statement.reads)]
    inner = vectors.copy()
    for level, position in enumerate(positions):
        inner = np.where(position >= home, inner * rest[level], inner)
    local = (home > 0) & (inner <= limit) & (inner <= LLVM_UNROLL)
    return RegisterTile(
        lanes=length / vectors,
        vectors=vectors,
        instances=np.prod(extents, axis=0) * vectors / length,
        own=found,
        straight=found & (pragma >= inside * length),
        tile=tile,
        wide=wide,
        inner=r1,
        kept=kept,
        promoted=promoted,
        unrolled=np.array([unrolled3, unrolled1, unrolled2]),
        chains=chains,
        loads=loads,
        gathered=gathered,
        scattered=scattered,
        spilled=spilled,
        reloaded=reloaded,
        body=body,
        local=local & (not batch.statement.reduces),
    )


class _Strides:
    """Elements an access moves per step of each loop, worked out when asked for; NaN where a floor term
    makes the steps uneven."""

    def __init__(self, access: Access, loops: tuple[Loop, ...], m: int) -> None:
        self._access, self._loops, self._m = access, loops, m
        self._floors = any(isinstance(term, Floor) for index in access.index for term in index.terms)
        self._known: dict[int, Floats] = {}

    def __getitem__(self, level: int) -> Floats:
        if level not in self._known:
            access, loop = self._access, self._loops[level]
            stride = np.broadcast_to(np.asarray(access.stride(loop), dtype=np.float64), self._m)
            if self._floors and access.indexed_by(loop):
                # In step with its stride the loop reaches as many elements as it has iterations.
                span = np.asarray(access.footprint([loop]), dtype=np.float64)
                steady = np.where(stride == 0, 1, np.subtract(loop.extent, 1) * np.abs(stride) + 1)
                stride = np.where((span != steady) & (stride < 2), np.nan, stride)
            self._known[level] = stride
        return self._known[level]

    def even(self, level: int) -> Bools:
        """Whether the access stands still or walks to the next element."""
        stride = self[level]
        return np.asarray((stride == 0) | (stride == 1))


def _loop_vectorised(
    batch: StatementBatch,
    loops: tuple[Loop, ...],
    extents: Floats,
    code: Rewrite,
    strides: list[_Strides],
    limit: Floats,
) -> tuple[Bools, Floats]:
    """`depth x m`, the loop LLVM vectorises where TVM did not: the innermost one that walks the output
    contiguously, if the loops inside are unrolled; and the statements inside it."""
    depth, m = extents.shape
    chosen = np.zeros((depth, m), dtype=bool)
    inside, within = np.ones(m), np.ones(m)
    statement = batch.statement
    branches = bool(statement.ops.get("select")) and bool(statement.reduces)
    searching = (code.lanes == 1) & (not branches)
    mixed = dict(zip(statement.loops, batch.mixed, strict=True))
    for level in reversed(range(depth)):
        searching = searching & (inside <= limit)
        if not searching.any():
            break
        if not mixed[loops[level]]:
            walks = searching & (extents[level] > 1) & (strides[-1][level] == 1)
            if walks.any():
                chosen[level] = walks
                for stride in strides[:-1]:
                    chosen[level] &= stride.even(level)
                within = np.where(walks, inside, within)
                searching = searching & ~walks
        inside = inside * extents[level]
    return chosen, within


def _streak(extents: Floats, body: Floats, limit: Floats) -> Floats:
    """Iterations of the innermost loop of a run, and of the next ones as long as all is still unrolled."""
    total = np.ones(len(body))
    going = np.ones(len(body), dtype=bool)
    for extent in extents[::-1]:
        total = np.where(going, total * extent, total)
        going = going & ((extent == 1) | (body * total <= limit))
    return total


def _operands(
    touched: Reach,
    strides: list[_Strides],
    spans: dict[str, list[int]],
    rest: Floats,
    walked: Bools,
    along: NDArray[np.int64],
    vectors: Floats,
    tiles: tuple[Floats, Floats],
    unrolled2: Bools,
    registers: int,
) -> tuple[Floats, Floats, Bools, Floats]:
    """Registers loaded per vector operation, those of them gathered, whether the output is scattered, and the
    registers that a turn of S2 loads and a later turn needs again."""
    m = rest.shape[1]
    levels = [level for level in range(len(rest)) if walked[level].any()]
    vectorised = walked.any(axis=0)
    narrow, wide, gathers = [], [], []
    for moves, stride in zip(touched.moves, strides, strict=True):
        still, even = np.ones(m, dtype=bool), np.ones(m, dtype=bool)
        for level in levels:
            here = vectorised & (along == level)
            still &= ~here | (stride[level] == 0)
            even &= ~here | stride.even(level)
        distinct = np.where(still, 1.0, vectors)
        for level in spans["S3"]:
            if moves[level]:
                distinct = distinct * rest[level]
        narrow.append(distinct)
        for level in spans["S2"]:
            if moves[level]:
                distinct = distinct * rest[level]
        wide.append(distinct)
        gathers.append(~even)
    loads, gathered, again = np.zeros(m), np.zeros(m), np.zeros(m)
    if touched.operands:
        least = np.min(wide[: touched.operands], axis=0)
        shared = unrolled2 & (tiles[1] + least <= registers)
        for i in range(touched.operands):
            load = np.where(shared, wide[i] / tiles[1], narrow[i] / tiles[0])
            loads += load
            gathered += np.where(gathers[i], load, 0.0)
        if spans["S2"] and unrolled2.any():
            for i in range(touched.operands):
                again += _met_again(narrow[i], touched.moves[i], spans, rest)
    return loads, gathered, gathers[-1], again


def _met_again(narrow: Floats, moves: Sequence[bool], spans: dict[str, list[int]], rest: Floats) -> Floats:
    """Registers of an operand that one turn of S2 loads and another needs again; narrow: those of a step."""
    still = [level for level in spans["S2"] if not moves[level]]
    steps = [level for level in spans["R1"] if moves[level]]
    return np.where((rest[still] > 1).any(axis=0), narrow * np.prod(rest[steps], axis=0), 0.0)
