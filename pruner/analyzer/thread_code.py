"""What nvcc makes of a thread's code: which loops it unrolls, what it keeps in registers, what in local
memory.

Found by compiling some seven hundred random schedules of six operators for sm_80 and reading ptxas' counts.
Accumulators are an array of the source; they become registers when every loop that indexes them is unrolled,
by TVM's pragma or by nvcc; else the array stays in local memory. The fetches of a step are all loaded before
they are stored, so that they count as well. Constants are a fit on half of the conv2d and matmul schedules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.footprints import inputs
from pruner.analyzer.gpu_statement import GpuStatement
from pruner.analyzer.statements import StatementBatch

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# TVM copies the innermost statement for so many virtual threads at most; for more it makes a loop of them.
COPIED_VTHREADS = 15
# Statements up to which nvcc unrolls: loops over accumulators, reductions of few and of more steps.
_SPATIAL, _SHORT, _LONG = 670, 256, 64
_FEW = 8
# An array of more elements stays in local memory unless TVM has unrolled all its loops; and so does one
# inside a loop of so many virtual threads.
_ARRAY, _VTHREAD_LOOP = 320, 64
# Turns of a fetch loop that is not unrolled by the pragma, which nvcc has under way at once.
_UNDER_WAY = 16
# A padded element needs its predicate and its own address.
_PADDED = 0.6
# A thread's registers come in so many at a time.
_HANDED_OUT = 8
# Addresses and counters, of a thread with its accumulators in registers and of one without.
_BASE, _BASE_LOCAL = 10.0, 60.0


@dataclass(frozen=True, eq=False)
class ThreadCode:
    """One thread's share of a statement, float64[m] each.

    accumulators: what it updates over the whole reduction, in registers of 4 bytes. kept: whether they are
        registers. registers: what it would hold at once if there were enough. local_bytes: accumulators in
        local memory. size: statements in straight-line code, copied: those of them that TVM's pragma makes.
        operands: different elements that it reads. own, unrolled: levels of the thread's own loops but those
        over virtual threads, and for each, bool[m], whether it is unrolled.
    """

    accumulators: Floats
    kept: Bools
    registers: Floats
    local_bytes: Floats
    size: Floats
    copied: Floats
    operands: Floats
    own: list[int]
    unrolled: Bools


def registers_limit(threads: Floats, device: Device) -> Floats:
    """float64[m], registers of 4 bytes that a thread of a block of so many can have. A block's warps are
    spread over the schedulers, each with its part of the registers, handed out in eights."""
    sm, schedulers = device.sm, device.levels[1].units
    declared = device.target.get("registers_per_block")
    room = min(sm.registers, declared) if isinstance(declared, int) else sm.registers
    warps = np.ceil(np.maximum(threads, 1.0) / (sm.warp * schedulers)) * schedulers
    each = np.floor(room / (warps * sm.warp) / _HANDED_OUT) * _HANDED_OUT
    return np.asarray(np.minimum(each, float(sm.registers_per_thread)))


def fetch_registers(statement: GpuStatement, turns: Floats) -> Floats:
    """float64[m], registers that a thread's fetched elements take while they are on their way; turns:
    float64[m], how often it fetches in a step."""
    batch = statement.batch
    under_way = np.where(turns <= batch.unroll, turns, np.minimum(turns, _UNDER_WAY))
    padded = _PADDED if batch.statement.ops.get("select") else 0.0
    return under_way * statement.lanes * _words(batch) * (1.0 + padded)


def thread_code(statement: GpuStatement, fetched: Floats, limit: Floats) -> ThreadCode:
    """A thread's code of a batch of statements. float64[m] each: fetched, registers that the kernel's fetches
    hold; limit, what a thread can have."""
    batch, loops, extents = statement.batch, statement.loops, statement.extents
    own = statement.roles.inside(("R1", "S3", "R2", "S4"), loops)
    virtual = statement.product("vthread")
    spatial = np.array([loops[level] not in batch.statement.reduces for level in own] + [True])
    # The loop over many virtual threads is the innermost one.
    many = virtual > COPIED_VTHREADS
    inner = np.vstack([extents[own], np.where(many, virtual, 1.0)])
    pragma = np.where(batch.unrolls, batch.unroll, 0).astype(np.float64)
    by_tvm, copied = _unrolled_by_tvm(inner, np.where(many, 1.0, virtual), pragma)
    unrolled, kept, size = _unrolled_by_nvcc(inner, copied, by_tvm, spatial)

    accumulators = _words(batch) * virtual * np.prod(inner[:-1][spatial[:-1]], axis=0)
    whole = ~((inner > 1) & ~by_tvm & spatial[:, None]).any(axis=0)
    kept &= whole | (accumulators <= _ARRAY)
    if not (statement.reducing and _in_registers(batch)):
        # Nothing is kept over a loop.
        accumulators, kept = np.ones(len(batch)), np.ones(len(batch), dtype=bool)

    live = np.prod(np.where(unrolled & spatial[:, None], inner, 1.0), axis=0) * np.where(many, 1.0, virtual)
    operands = np.zeros(len(batch))
    for i in inputs(batch.statement):
        moving = unrolled[:-1] & statement.moves[i][own]
        distinct = np.prod(np.where(moving, inner[:-1], 1.0), axis=0)
        operands += distinct * np.where(unrolled[-1] | ~many, statement.shares[i], 1.0)
    # What is on its way grows slower than its number: the compiler orders loads so that few live at once.
    passing = 5.0 * operands**0.25 + 6.0 * fetched**0.6
    registers = np.where(
        kept,
        _BASE + accumulators + passing,
        np.minimum(limit, _BASE_LOCAL + 0.1 * np.minimum(live, 256.0) + passing),
    )
    local = np.where(kept, 0.0, 4.0 * accumulators)
    return ThreadCode(accumulators, kept, registers, local, size, copied, operands, own, unrolled[:-1])


def _unrolled_by_tvm(inner: Floats, size: Floats, pragma: Floats) -> tuple[Bools, Floats]:
    """Which loops TVM's UnrollLoop replaces by copies, from the inside as long as the statements stay within
    the pragma, and how many statements that makes."""
    unrolled = inner <= 1
    going = pragma > 0
    for level in reversed(range(len(inner))):
        going = going & (unrolled[level] | (size * inner[level] <= pragma))
        size = np.where(going, size * inner[level], size)
        unrolled[level] |= going
    return unrolled, size


def _unrolled_by_nvcc(
    inner: Floats, size: Floats, by_tvm: Bools, spatial: Bools
) -> tuple[Bools, Bools, Floats]:
    """Which loops are unrolled in the end, whether all those over accumulators are, and the statements.

    nvcc goes from the inside out too. A reduction that grows too large stays a loop, and what is outside can
    still be unrolled; a loop over accumulators that does not fit leaves their array in memory."""
    unrolled = by_tvm.copy()
    kept = np.ones(inner.shape[1], dtype=bool)
    outside = (spatial[:-1, None] & ~by_tvm[:-1]).any(axis=0)
    kept &= ~(outside & ~by_tvm[-1] & (inner[-1] >= _VTHREAD_LOOP))
    for level in reversed(range(len(inner))):
        grown = size * inner[level]
        if spatial[level]:
            fits = grown <= _SPATIAL
            kept &= by_tvm[level] | fits
            takes = ~by_tvm[level] & kept
        else:
            fits = grown <= np.where(inner[level] <= _FEW, _SHORT, _LONG)
            takes = ~by_tvm[level] & kept & fits
        size = np.where(takes, grown, size)
        unrolled[level] |= takes
    return unrolled, kept, size


def _in_registers(batch: StatementBatch) -> bool:
    """Whether the output is a thread's own array."""
    return all(access.buffer.scope.startswith("local") for access in batch.statement.writes)


def _words(batch: StatementBatch) -> float:
    """Registers that an element of the output takes."""
    return max(1.0, batch.statement.writes[0].buffer.itemsize / 4) if batch.statement.writes else 1.0
