"""A plain roofline of GPU kernels: a statement takes the longest of its arithmetic, its shared-memory traffic
and its global traffic; blocks run in whole waves, as many on a multiprocessor as it has room for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection, Kernel
from pruner.analyzer.gpu_symbols import gpu_symbols
from pruner.analyzer.penalties import utilisation
from pruner.analyzer.terms import Terms

Floats = NDArray[np.float64]

# Cycles until the result of a multiply-add can be used: other warps, or other accumulators, fill them.
_LATENCY = 4.0
# Registers are handed out to a warp in pieces of so many.
_REGISTER_UNIT = 256


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


def gpu_terms(statement: GpuInspection, device: Device, kept: frozenset[str]) -> Terms:
    """The terms of one batch of statements. kept: the penalties in force."""
    sm, kernel, code = device.sm, statement.kernel, statement.code
    found = gpu_symbols(statement, device)
    share = np.full(len(statement.batch), 1.0 / device.cores)
    if "l2_compute" in kept:
        share = np.ceil(kernel.blocks / device.cores) / kernel.blocks
    rate = np.full(len(statement.batch), found.rate)
    if "l0_compute" in kept:
        rate = rate * utilisation(kernel.threads, sm.warp)
    if "l1_compute" in kept:
        blocks = np.minimum(resident_blocks(kernel, device), np.ceil(kernel.blocks / device.cores))
        warps = blocks * np.ceil(kernel.threads / sm.warp) / device.levels[1].units
        chains = np.where(code.kept, np.minimum(code.accumulators, _LATENCY), 1.0)
        rate = rate * np.minimum(warps * chains / _LATENCY, 1.0)
    core = found.operations / rate * share * device.cores

    near = np.zeros_like(core)
    if "l1_memory" in kept:
        near = near + statement.instances * code.operands / code.size * _staged(statement)
    if "l0_memory" in kept:
        near = near + np.where(code.kept, 0.0, 2.0 * 4.0 * statement.instances)
    near = near / device.levels[1].bandwidth * share * device.cores

    far = np.zeros_like(core)
    cache, memory = device.levels[-2], device.levels[-1]
    for traffic, run in zip(found.traffic if "l2_memory" in kept else (), found.runs, strict=False):
        moved = traffic / utilisation(run, device.transaction)
        # Blocks that load the same find it in the cache, if all data have room there.
        first = np.where(found.data <= cache.capacity, np.minimum(moved, found.data), moved)
        far = far + np.maximum(moved / cache.bandwidth, first / memory.bandwidth)
    far = far * np.maximum(share * device.cores, 1.0)
    return Terms(core, near, far, np.maximum(np.maximum(core, near), far), share)


def _staged(statement: GpuInspection) -> int:
    """Bytes of an element that the statement reads from shared memory; 0 where it reads none."""
    sizes = [
        a.buffer.itemsize for a in statement.batch.statement.reads if a.buffer.scope.startswith("shared")
    ]
    return max(sizes, default=0)
