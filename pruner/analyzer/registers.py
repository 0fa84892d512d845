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
from pruner.analyzer.roles import Roles
from pruner.analyzer.statements import StatementBatch
from pruner.search.nest import Access, Floor

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# LLVM unrolls a loop nest completely up to about this many vector statements, pragma or not.
LLVM_UNROLL = 64


@dataclass(frozen=True, eq=False)
class RegisterTile:
    """The innermost code of a statement, one entry per row.

    lanes: elements a vector instruction works on (1 = scalar). vectors: registers that one vector of the
        schedule takes. instances: vector instructions a statement instance set needs: the statement's
        instances over `lanes`, partly filled ones counted whole.
    own: bool, LLVM found the vector, not TVM. unrolled_vector: bool, TVM unrolls the loop LLVM would need.
    tile, wide_tile: accumulator registers of the register tile S3, and of S2 and S3 together.
    inner, kept: reduction steps R1, and vector operations per load and store of an accumulator.
    promoted: bool, accumulators stay in registers over the outer reduction R0.
    unrolled: bool `3 x m`: the register tile, also R1, also S2 are straight-line code.
    chains: independent accumulations in flight.
    loads: registers loaded per vector operation, `gathered` those that need a load per lane.
    spilled: share of the accumulators that find no register.
    body: vector operations in one iteration of the innermost loop that remains.
    """

    lanes: Floats
    vectors: Floats
    instances: Floats
    own: Bools
    unrolled_vector: Bools
    tile: Floats
    wide_tile: Floats
    inner: Floats
    kept: Floats
    promoted: Bools
    unrolled: Bools
    chains: Floats
    loads: Floats
    gathered: Floats
    scattered: Bools
    spilled: Floats
    body: Floats


def register_tile(
    batch: StatementBatch,
    extents: Floats,
    code: Rewrite,
    touched: Reach,
    roles: Roles,
    *,
    lanes: int,
    registers: int,
) -> RegisterTile:
    """The register tile of a batch. extents: `depth x m`; lanes: elements in a vector register;
    registers: vector registers of a core."""
    depth, m = extents.shape
    pragma = np.where(batch.unrolls, batch.unroll, 0).astype(np.float64)
    limit = np.maximum(pragma, LLVM_UNROLL)
    strides = [_strides(access, batch, m) for access in touched.accesses]

    vector = np.zeros((depth, m), dtype=bool)
    for level in range(depth):
        vector[level] = (code.lanes > 1) & (level >= depth - code.vector_loops)
    length = code.lanes.astype(np.float64)
    own, inside = _loop_vectorised(batch, extents, code, strides, limit)
    vector |= own
    found = own.any(axis=0)
    length = np.where(found, (own * extents).sum(axis=0), length)
    # A whole nest that TVM fuses and splits is an elementwise one; the vector runs along its last loop.
    walked = vector & (extents > 1)
    innermost = depth - 1 - np.argmax(walked[::-1], axis=0) if depth else np.zeros(m, dtype=np.int64)

    vectors = np.ceil(length / lanes)
    per_vector = length / vectors
    rest = np.where(vector, 1.0, extents)
    with_vector = vectors

    def span(role: str) -> Floats:
        return np.prod(rest[roles.span(role)], axis=0)

    s3, s2, r1 = span("S3"), span("S2"), span("R1")
    tile = s3 * with_vector
    wide = tile * s2
    body_limit = np.maximum(pragma * vectors, LLVM_UNROLL)
    unrolled3 = tile <= body_limit
    unrolled1 = unrolled3 & (tile * r1 <= body_limit)
    unrolled2 = unrolled1 & ((wide * r1 <= body_limit) | (s2 == 1))
    promoted = unrolled2 & (wide <= LLVM_UNROLL)
    r0_run = _streak(rest[roles.span("R0")], np.where(promoted, wide * r1, np.inf), body_limit)
    r1_run = _streak(rest[roles.span("R1")], tile, body_limit)
    kept = np.where(promoted, r1 * r0_run, np.where(unrolled1, r1, np.where(unrolled3, r1_run, 1.0)))
    chains = np.where(promoted, wide, np.where(unrolled1, np.maximum(tile, 8.0), tile))

    held = np.where(promoted, wide, tile)
    usable = registers - max(3, registers // 5)  # operands and addresses need some
    spilled = np.where(unrolled3, np.maximum(held - usable, 0) / held, 0)
    spilled = np.where(promoted, spilled / r1, spilled)

    loads, gathered, scattered = _operands(
        batch, touched, strides, roles, rest, vector, innermost, vectors, (tile, wide), (unrolled2, registers)
    )
    body = np.where(unrolled1, np.where(unrolled2, wide * r1, tile * r1), np.where(unrolled3, tile, vectors))
    return RegisterTile(
        lanes=per_vector,
        vectors=vectors,
        instances=np.prod(extents, axis=0) / per_vector,
        own=found,
        unrolled_vector=found & (pragma >= inside * length),
        tile=tile,
        wide_tile=wide,
        inner=r1,
        kept=kept,
        promoted=promoted,
        unrolled=np.array([unrolled3, unrolled1, unrolled2]),
        chains=chains,
        loads=loads,
        gathered=gathered,
        scattered=scattered,
        spilled=spilled,
        body=body,
    )


def _strides(access: Access, batch: StatementBatch, m: int) -> Floats:
    """`depth x m` elements the address moves per step of each loop; a floor term that a loop's whole run
    moves, though its first step may not, counts as a gather (NaN)."""
    result = np.zeros((len(batch.statement.loops), m))
    floors = any(isinstance(term, Floor) for index in access.index for term in index.terms)
    for level, loop in enumerate(batch.statement.loops):
        stride = np.broadcast_to(np.asarray(access.stride(loop), dtype=np.float64), m)
        if floors and access.indexed_by(loop):
            span = np.asarray(access.footprint([loop]), dtype=np.float64)
            # In step with its stride the loop reaches as many elements as it has iterations.
            odd = np.where(stride == 0, span > 1, span != 1 + (np.asarray(loop.extent) - 1) * np.abs(stride))
            stride = np.where(odd & (stride < 2), np.nan, stride)
        result[level] = stride
    return result


def _loop_vectorised(
    batch: StatementBatch, extents: Floats, code: Rewrite, strides: list[Floats], limit: Floats
) -> tuple[Bools, Floats]:
    """`depth x m`, the loop LLVM vectorises where TVM did not: the innermost one that walks the output
    contiguously, if the loops inside are unrolled; and the statements inside it."""
    depth, m = extents.shape
    chosen = np.zeros((depth, m), dtype=bool)
    inside, within = np.ones(m), np.ones(m)
    statement = batch.statement
    branches = bool(statement.ops.get("select")) and bool(statement.reduces)
    searching = (code.lanes == 1) & (not branches)
    output = strides[-1]
    for level in reversed(range(depth)):
        if statement.loops[level] not in statement.reduces and not batch.mixed[level]:
            even = np.all([np.isin(stride[level], (0.0, 1.0)) for stride in strides[:-1]] or [[True]], axis=0)
            walks = (output[level] == 1) & even & (extents[level] > 1)
            chosen[level] = searching & walks & (inside <= limit)
            within = np.where(chosen[level], inside, within)
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
    batch: StatementBatch,
    touched: Reach,
    strides: list[Floats],
    roles: Roles,
    rest: Floats,
    vector: Bools,
    innermost: NDArray[np.int64],
    vectors: Floats,
    tiles: tuple[Floats, Floats],
    sharing: tuple[Bools, int],
) -> tuple[Floats, Floats, Bools]:
    """Registers loaded per vector operation, those of them gathered, and whether the output is scattered."""
    m = rest.shape[1]
    columns = np.arange(m)
    vectorised = vector.any(axis=0)
    narrow, wide, gathers = [], [], []
    for moves, stride in zip(touched.moves, strides, strict=True):
        along = stride[innermost, columns] if len(stride) else np.zeros(m)
        distinct = np.ones(m)
        for level in roles.span("S3"):
            if moves[level]:
                distinct = distinct * rest[level]
        distinct = distinct * np.where(vectorised & (along != 0), vectors, 1.0)
        narrow.append(distinct)
        for level in roles.span("S2"):
            if moves[level]:
                distinct = distinct * rest[level]
        wide.append(distinct)
        gathers.append(vectorised & ~np.isin(along, (0.0, 1.0)))
    operands = len(narrow) - len(batch.statement.writes)
    if not operands:
        return np.zeros(m), np.zeros(m), gathers[-1]
    least = np.min(wide[:operands], axis=0)
    unrolled2, registers = sharing
    shared = unrolled2 & (tiles[1] + least <= registers)
    loads, gathered = np.zeros(m), np.zeros(m)
    for i in range(operands):
        load = np.where(shared, wide[i] / tiles[1], narrow[i] / tiles[0])
        loads += load
        gathered += np.where(gathers[i], load, 0.0)
    return loads, gathered, gathers[-1]
