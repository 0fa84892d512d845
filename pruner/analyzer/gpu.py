"""A statement on a GPU: the kernel around it, what that needs, and what one thread does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
        kernels.gather([s.register_bytes() for s in found], np.maximum),
        kernels.gather([s.staged() for s in found], np.add),
        kernels.laid_out(found),
    ]
    return [
        GpuInspection(**vars(s), kernel=Kernel(*values), code=code, turns=own)
        for s, code, own, *values in zip(found, codes, turns, *columns, strict=True)
    ]


class _Kernels:
    """Values by statement gathered by kernel: over the statements of the same nest of the same candidate."""

    def __init__(self, parts: Sequence[StatementBatch]) -> None:
        self._parts = parts
        rows = 1 + max((int(batch.rows.max(initial=-1)) for batch in parts), default=-1)
        nests = 1 + max((int(batch.nest.max(initial=-1)) for batch in parts), default=-1)
        self._shape = (nests, rows)

    def gather(self, values: Sequence[Floats], how: Callable[[Floats, Floats], Floats]) -> list[Floats]:
        """For each batch, what its kernels' statements have together, taken up in program order by `how`."""
        table = np.zeros(self._shape)
        order = sorted(range(len(self._parts)), key=lambda i: int(self._parts[i].slot.min(initial=0)))
        for i in order:
            nest, rows = self._parts[i].nest, self._parts[i].rows
            table[nest, rows] = how(table[nest, rows], values[i])
        return [table[batch.nest, batch.rows] for batch in self._parts]

    def laid_out(self, found: Sequence[GpuStatement]) -> list[Floats]:
        """Bytes of the shared arrays, every one behind the one before it at an aligned place; those of a
        single element, which the compiler makes a variable of, behind all arrays."""

        def place(known: Floats, value: Floats) -> Floats:
            return np.where(value > 0, np.ceil(known / ALIGNMENT) * ALIGNMENT + value, known)

        bytes_ = [s.staged() * s.versions() for s in found]
        single = [
            b == s.batch.statement.writes[0].buffer.itemsize for s, b in zip(found, bytes_, strict=True)
        ]
        arrays = self.gather([np.where(one, 0.0, b) for one, b in zip(single, bytes_, strict=True)], place)
        variables = self.gather(
            [np.where(one, b, 0.0) for one, b in zip(single, bytes_, strict=True)], np.add
        )
        return [a + v for a, v in zip(arrays, variables, strict=True)]
