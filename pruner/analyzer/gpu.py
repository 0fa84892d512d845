"""A statement on a GPU: the kernel around it, what that needs, and what one thread does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.gpu_statement import GpuStatement, read_statement
from pruner.analyzer.statements import StatementBatch
from pruner.analyzer.thread_code import ThreadCode, fetch_registers, registers_limit, thread_code

Floats = NDArray[np.float64]

# TVM aligns every shared array to this many bytes.
ALIGNMENT = 64


@dataclass(frozen=True, eq=False)
class Kernel:
    """The kernel around a statement, float64[m] each: the nest of its outermost loop.

    blocks, threads: how many blocks it has, and threads a block. vthreads: virtual threads of a thread.
    registers: what a thread would keep in registers if there were enough. limit: the registers that a thread
        of so many can have. accumulators: those of a thread, in registers. local_bytes: accumulators that the
        compiler leaves in a thread's local memory.
    register_bytes: S1, what the paper counts of a thread's registers. staged_bytes: S3, the shared arrays of
        a block. shared_bytes: the same as the compiler lays them out, with the copies for a software
        pipeline.
    """

    blocks: Floats
    threads: Floats
    vthreads: Floats
    registers: Floats
    limit: Floats
    accumulators: Floats
    local_bytes: Floats
    register_bytes: Floats
    staged_bytes: Floats
    shared_bytes: Floats


@dataclass(frozen=True, eq=False)
class GpuInspection(GpuStatement):
    """kernel: the one around the statement. code: what one thread does. turns: float64[m], how often a thread
    fetches in one step; 0 for a statement that fetches nothing."""

    kernel: Kernel
    code: ThreadCode
    turns: Floats


def inspect_gpu(parts: Sequence[StatementBatch], device: Device) -> list[GpuInspection]:
    """The statements of `parts` on a GPU."""
    found = [read_statement(batch) for batch in parts]
    kernels = _Kernels(parts)
    blocks = kernels.gather([s.product("blockIdx") for s in found], np.maximum)
    threads = kernels.gather([s.product("threadIdx") for s in found], np.maximum)
    turns = [
        np.ceil(s.elements / (own * np.maximum(s.lanes, 1.0))) for s, own in zip(found, threads, strict=True)
    ]
    limits = [registers_limit(own, device) for own in threads]
    fetched = kernels.gather([fetch_registers(s, own) for s, own in zip(found, turns, strict=True)], np.add)
    codes = [thread_code(s, *held) for s, *held in zip(found, fetched, limits, strict=True)]
    columns = [
        blocks,
        threads,
        kernels.gather([s.product("vthread") for s in found], np.maximum),
        kernels.gather([code.registers for code in codes], np.maximum),
        limits,
        kernels.gather([code.accumulators for code in codes], np.maximum),
        kernels.gather([code.local_bytes for code in codes], np.add),
        kernels.gather([s.register_bytes for s in found], np.maximum),
        kernels.gather([s.staged for s in found], np.add),
        kernels.laid_out(found, device.sm.warp),
    ]
    return [
        GpuInspection(**_fields(s), kernel=Kernel(*values), code=code, turns=own)
        for s, code, own, *values in zip(found, codes, turns, *columns, strict=True)
    ]


def _fields(statement: GpuStatement) -> dict[str, Any]:
    return {field.name: getattr(statement, field.name) for field in fields(GpuStatement)}


class _Kernels:
    """Values by statement gathered by kernel: over the statements of the same nest of the same candidate."""

    def __init__(self, parts: Sequence[StatementBatch]) -> None:
        rows = 1 + max((int(batch.rows.max(initial=-1)) for batch in parts), default=-1)
        nests = 1 + max((int(batch.nest.max(initial=-1)) for batch in parts), default=-1)
        self._size = nests * rows
        # Where the kernels of a batch's rows stand in a table of all.
        self._at = [batch.nest * rows + batch.rows for batch in parts]
        # Which entries of which batch stand at a slot, slot after slot, and their kernels.
        places = [(slot, i) for i, batch in enumerate(parts) for slot in np.unique(batch.slot).tolist()]
        entries = [(i, np.flatnonzero(parts[i].slot == slot)) for slot, i in sorted(places)]
        self._order = [(i, here, self._at[i][here]) for i, here in entries]

    def gather(self, values: Sequence[Floats], how: Callable[[Floats, Floats], Floats]) -> list[Floats]:
        """For each batch, what its kernels' statements have together, taken up in program order by `how`."""
        table = np.zeros(self._size)
        for i, here, at in self._order:
            table[at] = how(table[at], values[i][here])
        return [table[at] for at in self._at]

    def laid_out(self, found: Sequence[GpuStatement], warp: int) -> list[Floats]:
        """Bytes of the shared arrays, one behind the other at aligned places: those that fetches fill, those
        of reductions across threads, and last those of a single element, which the compiler makes variables
        of."""
        staged = [s.staged * s.versions() for s in found]
        single = [
            bytes_ == s.batch.statement.writes[0].buffer.itemsize
            for s, bytes_ in zip(found, staged, strict=True)
        ]
        kinds = [
            [np.where(one, 0.0, bytes_) for one, bytes_ in zip(single, staged, strict=True)],
            [s.exchanged(warp, ALIGNMENT) for s in found],
            [np.where(one, bytes_, 0.0) for one, bytes_ in zip(single, staged, strict=True)],
        ]
        placed = zip(*(self.gather(kind, _behind) for kind in kinds), strict=True)
        return [_behind(_behind(arrays, across), variables) for arrays, across, variables in placed]


def _behind(known: Floats, bytes_: Floats) -> Floats:
    """The end of an array that begins at the first aligned place behind `known` bytes."""
    return np.where(bytes_ > 0, np.ceil(known / ALIGNMENT) * ALIGNMENT + bytes_, known)
