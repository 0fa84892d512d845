"""What LLVM makes of a statement's inner loops: vectors, registers, and what moves between them.

Found by reading the machine code of random schedules: TVM hands LLVM vectors as long as its vector loop;
without one LLVM vectorises a loop itself if everything inside it is unrolled. Accumulators stay in
registers over the loops around them when the loops between are unrolled, whether by TVM's pragma or,
for small bodies, by LLVM.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.codegen import Rewrite
from pruner.analyzer.footprints import Reach
from pruner.analyzer.operands import InnerCode, operands
from pruner.analyzer.roles import ROLES, Roles
from pruner.analyzer.statements import StatementBatch
from pruner.analyzer.strides import Strides
from pruner.search.nest import Loop

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# LLVM unrolls a loop nest completely up to about this many vector statements, pragma or not.
LLVM_UNROLL = 64
# Lines so many bytes apart share a set of the L1 cache, and a load waits for an earlier store so far away.
PAGE = 4096


@dataclass(frozen=True, eq=False)
class RegisterTile:
    """The innermost code of a statement, one entry per row.

    lanes: elements a vector instruction works on (1 = scalar), the last of a long vector averaged in.
    vectors: registers that one vector of the schedule takes.
    instances: vector instructions for one operation of every instance of the statement.
    own: LLVM found the vector, not TVM. straight: TVM unrolls the loop that LLVM would need for that. around:
        statements inside that loop; 0 where it is TVM's.
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
    crowded: accumulators of the register tile in memory that are a multiple of a page apart.
    body: vector operations in one iteration of the innermost loop that remains.
    local: a copy into an intermediate so small that it is unrolled and held in registers.
    """

    lanes: Floats
    vectors: Floats
    instances: Floats
    own: Bools
    straight: Bools
    around: Floats
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
    crowded: Floats
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
    strides = [Strides(access, loops, m) for access in touched.accesses]

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

    whole = promoted & (r0_run == span("R0")) & (wide * r1 * r0_run <= body_limit)
    straight = _outermost(spans, depth, {"S3": unrolled3, "R1": unrolled1, "S2": unrolled2, "R0": whole})
    inner = InnerCode(rest, spans, walked, along, vectors, length, tile, wide, held, unrolled2, straight)
    read = operands(touched, strides, inner, registers)
    reloaded = np.where(unrolled2 & (s2 > 1), np.maximum(read.again - usable, 0.0) / (wide * r1), 0.0)
    body = np.where(unrolled1, np.where(unrolled2, wide * r1, tile * r1), np.where(unrolled3, tile, vectors))
    home = batch.homes[len(batch.statement.reads)]
    body_at_home = vectors.copy()
    for level, position in enumerate(positions):
        body_at_home = np.where(position >= home, body_at_home * rest[level], body_at_home)
    local = (home > 0) & (body_at_home <= LLVM_UNROLL)
    return RegisterTile(
        lanes=length / vectors,
        vectors=vectors,
        instances=np.prod(extents, axis=0) * vectors / length,
        own=found,
        straight=found & (pragma >= inside * length),
        around=np.where(found, inside, 0.0),
        tile=tile,
        wide=wide,
        inner=r1,
        kept=kept,
        promoted=promoted,
        unrolled=np.array([unrolled3, unrolled1, unrolled2]),
        chains=chains,
        loads=read.loads,
        gathered=read.gathered,
        scattered=read.scattered,
        spilled=spilled,
        reloaded=reloaded,
        crowded=_crowded(strides[-1], spans["S3"], rest, batch.statement.writes[0].buffer.itemsize, home),
        body=body,
        local=local & (not batch.statement.reduces),
    )


def _loop_vectorised(
    batch: StatementBatch,
    loops: tuple[Loop, ...],
    extents: Floats,
    code: Rewrite,
    strides: list[Strides],
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


def _crowded(
    stride: Strides, levels: list[int], rest: Floats, itemsize: int, home: NDArray[np.int64]
) -> Floats:
    """float64[m], elements of an output that the loops reach in steps of whole pages; home: the depth its
    buffer lives at, 0 = it has the program's shape and not one made for the tile."""
    reached = np.ones(rest.shape[1])
    for level in levels:
        apart = (home == 0) & (np.remainder(stride[level] * itemsize, PAGE) == 0)
        reached = np.where(apart, reached * rest[level], reached)
    return reached


def _outermost(spans: dict[str, list[int]], depth: int, unrolled: dict[str, Bools]) -> NDArray[np.int64]:
    """int64[m], the depth at which straight-line code begins; unrolled: whether a role's loops and all inside
    them are."""
    begins = np.full(len(unrolled["S3"]), depth)
    for role, here in unrolled.items():
        if spans[role]:
            begins = np.where(here, np.minimum(begins, spans[role][0]), begins)
    return begins
