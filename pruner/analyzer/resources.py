"""The register and shared-memory symbols of GPU programs, and which programs a device can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection
from pruner.analyzer.inspection import Inspection, inspect
from pruner.errors import DeviceError
from pruner.search.population import Population

Floats = NDArray[np.float64]

# TVM means to stop at 8 virtual threads but never does. With few accumulators up to 64 of them compile like
# any other program (17 kB of machine code in the median, as with one); with more the median is 100 kB, and
# ptxas took half a minute for 196.
VTHREADS = 64


@dataclass(frozen=True, eq=False)
class Resources:
    """What the largest kernel of each candidate needs.

    registers: float64[n], of 4 bytes, what a thread would hold if there were enough: to be compared with
        what ptxas assigns and what it keeps in local memory, its stack frame, for want of registers.
    local_bytes: float64[n], of these the accumulators that the compiler leaves in local memory as an array,
        because some loop over them stays a loop.
    shared_bytes: int64[n], static shared memory of a block, to the byte what ptxas says.
    """

    registers: Floats
    local_bytes: Floats
    shared_bytes: NDArray[np.int64]


def resources(population: Population, device: Device) -> Resources:
    """The resources of legal candidates of a CUDA space. Raises DeviceError for a device that is no GPU."""
    if device.kind != "gpu":
        raise DeviceError(f"device {device.name} is no GPU: these are the registers and arrays of kernels.")
    registers, local, shared = np.zeros((3, len(population)))
    for s in inspect(population.space.nests(population), device):
        if isinstance(s, GpuInspection):
            held = s.kernel.registers + s.kernel.local_bytes / 4
            np.maximum.at(registers, s.batch.rows, held)
            np.maximum.at(local, s.batch.rows, s.kernel.local_bytes)
            np.maximum.at(shared, s.batch.rows, s.kernel.shared_bytes)
    return Resources(registers, local, shared.astype(np.int64))


def fits(statements: Sequence[Inspection], device: Device, n: int) -> NDArray[np.bool_]:
    """bool[n]: whether the device can hold the candidates; a CPU holds them all.

    TVM checks threads and the sum of the shared arrays. Beyond that a program needs accumulators that a
    thread has registers for, few enough virtual threads, and shared arrays that fit with their padding too.
    Of 630 random programs compiled for sm_80, 157 had more accumulators than registers: each of them spilled
    some or kept them all in local memory; of those with half as many as registers 7 % did."""
    shared = device.target.get("max_shared_memory_per_block")
    room = float(shared) if isinstance(shared, (int, float)) else np.inf
    fitting = np.ones(n, dtype=bool)
    for s in statements:
        if isinstance(s, GpuInspection):
            held = s.kernel.accumulators <= s.kernel.limit
            good = held & (s.kernel.vthreads <= VTHREADS) & (s.kernel.shared_bytes <= room)
            fitting[s.batch.rows[~good]] = False
    return fitting
