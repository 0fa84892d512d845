"""What a GPU program takes: its kernels one after another, each as long as the work of the multiprocessor
with the most blocks, or as its blocks take wave after wave with their waiting, if that is more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection, Kernel
from pruner.analyzer.gpu_work import GpuCosts, work
from pruner.analyzer.terms import Terms

Floats = NDArray[np.float64]

# Registers are handed out to a warp in pieces of so many.
_REGISTER_UNIT = 256


@dataclass(frozen=True, eq=False)
class GpuTerms(Terms):
    """core is arithmetic and latency, near shared and local memory and the instructions of fetches, far the
    sectors that they move; total is their sum. alone: float64[m], seconds of the blocks without anything
    beside them."""

    alone: Floats


def resident_blocks(kernel: Kernel, device: Device) -> Floats:
    """float64[m], blocks of the kernel that a multiprocessor holds at once: threads, blocks, registers or
    shared memory run out first."""
    sm = device.sm
    warps = np.ceil(np.maximum(kernel.threads, 1.0) / sm.warp)
    held = np.minimum(kernel.registers, kernel.limit) * sm.warp
    registers = warps * np.ceil(held / _REGISTER_UNIT) * _REGISTER_UNIT
    shared = np.maximum(kernel.shared_bytes + sm.shared_reserved, 1.0)
    room = [sm.threads // (warps * sm.warp), sm.registers // registers, device.levels[1].capacity // shared]
    return np.asarray(np.clip(np.minimum.reduce(room), 1.0, sm.blocks))


def gpu_terms(statement: GpuInspection, device: Device, kept: frozenset[str], costs: GpuCosts) -> GpuTerms:
    """The terms of one batch of statements. kept: the penalties in force."""
    kernel = statement.kernel
    found = work(statement, device, resident_blocks(kernel, device), kept, costs)
    core = (found.issue + found.latency) / device.frequency
    near = (found.shared + found.fetch) / device.frequency
    far = found.memory / device.frequency
    share = np.full(len(statement.batch), 1.0 / device.cores)
    if "l2_compute" in kept:
        share = np.ceil(kernel.blocks / device.cores) / kernel.blocks
    return GpuTerms(core, near, far, core + near + far, share, found.alone / device.frequency)


def kernels_seconds(statements: Sequence[GpuInspection], terms: Sequence[GpuTerms], n: int) -> Floats:
    """float64[n]: each candidate's kernels, one after another, without their launches; summed up in program
    order, so that the last bit does not depend on which candidates are scored together."""
    slots = 1 + max((int(s.batch.slot.max()) for s in statements), default=0)
    busy, alone = np.zeros((2, slots, n))
    begins = np.zeros((slots, n), dtype=bool)
    for statement, own in zip(statements, terms, strict=True):
        at = (statement.batch.slot, statement.batch.rows)
        busy[at], alone[at] = own.total, own.alone
        begins[at] = statement.batch.slot == statement.batch.nest
    seconds, work_of, alone_of = np.zeros((3, n))
    for begin, more, waiting in zip(begins, busy, alone, strict=True):
        seconds = seconds + np.where(begin, np.maximum(work_of, alone_of), 0.0)
        work_of = np.where(begin, 0.0, work_of) + more
        alone_of = np.where(begin, 0.0, alone_of) + waiting
    return seconds + np.maximum(work_of, alone_of)
