"""The hardware-aware symbols of Pruner (ASPLOS 2025, section 4.1) over a device's levels.

The paper counts three levels of a GPU: registers and lanes, shared memory and warp schedulers, global memory
and multiprocessors. A CPU has the same three: vector registers and lanes, a core's private cache and its
pipes, memory and cores. On a CPU a statement's loops take the places of the paper's: the register tile S3 is
a thread's, everything inside the outer reduction R0 is what one step loads, the loops around it are blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.cpu import CpuInspection
from pruner.analyzer.device import Device
from pruner.analyzer.footprints import widths_by_depth
from pruner.analyzer.penalties import utilisation
from pruner.search.nest import Access

Floats = NDArray[np.float64]

# Operations of an instance that count as arithmetic; a padding test does not.
_ARITHMETIC = ("add", "mul", "div", "mod", "max", "exp", "root", "other")


@dataclass(frozen=True, eq=False)
class Symbols:
    """The symbols of one statement, float64[m] each.

    register_bytes: S1, L0MemAlloc: one register tile of every access; on a GPU the largest in the kernel.
    register_work: S2, L0CompCount: instances between two blocks of the outer loops; on a GPU a thread's.
    private_bytes: S3, L1MemAlloc: inputs that one step of the outer reduction loads.
    private_units: S4, L1ParaInfo: independent vectors of a register tile; on a GPU threads of a block.
    traffic: S5, L2MemFootprint: bytes loaded by all steps, per input, and the bytes stored.
    cores: S6, L2ParaInfo: iterations of the parallel loop; on a GPU blocks.
    runs: S7, L2TransDim: bytes that lie next to each other in a step's load, per entry of `traffic`.
    operations: S8, L2CompCount: arithmetic operations of the whole statement.
    rate: operations a second that the device reaches at best for the statement's type.
    lane_use: what is left of that rate at L0: vectors that are not full, or work on a GPU that waits for its
        operands.
    together: how many of `private_units` issue at once: pipes, or the threads of a warp.
    data: bytes of all the program's buffers, which tell the memory they stay in.
    """

    register_bytes: Floats
    register_work: Floats
    private_bytes: Floats
    private_units: Floats
    traffic: tuple[Floats, ...]
    cores: Floats
    runs: tuple[Floats, ...]
    operations: Floats
    rate: float
    lane_use: Floats
    together: int
    data: Floats


def cpu_symbols(statement: CpuInspection, device: Device) -> Symbols:
    """The symbols of a batch of statements on a CPU."""
    loops, extents, touched = statement.loops, statement.extents, statement.touched
    m = len(statement.batch)
    tile, step, block = (
        len(loops) - len(statement.roles.inside(inside, loops))
        for inside in (("S3",), ("S2", "R1", "S3"), ("R0", "S2", "R1", "S3"))
    )
    outer = np.prod(extents[:step], axis=0)
    lanes = np.maximum(statement.code.lanes, 1).astype(np.float64)
    vector = np.minimum(lanes, statement.lanes)
    instances = statement.instances
    register_bytes, private_bytes = np.zeros(m), np.zeros(m)
    traffic, runs = [], []
    for i, (access, elements) in enumerate(zip(touched.accesses, touched.elements, strict=True)):
        size = access.buffer.itemsize
        runs.append(_run(statement, access, step) * size)
        if not statement.reducing:
            # A copy or an epilogue streams: a vector at a time, nothing kept, every instance a load.
            register_bytes += vector * size
            traffic.append(instances * size)
            continue
        register_bytes += elements[tile] * size
        if i < touched.operands:
            private_bytes += elements[step] * size
            traffic.append(elements[step] * size * outer)
        else:
            # An output is written once, however often it is updated on the way.
            traffic.append(elements[0] * size)
    return Symbols(
        register_bytes=register_bytes,
        register_work=np.prod(extents[block:], axis=0),
        private_bytes=private_bytes,
        private_units=np.ceil(np.prod(extents[tile:], axis=0) / vector),
        traffic=tuple(traffic),
        cores=statement.code.chunks.astype(np.float64),
        runs=tuple(runs),
        operations=instances * arithmetic(statement.batch.statement.ops),
        # The peak is for 4 bytes an element; wider types have fewer lanes, narrower ones more.
        rate=device.peak["float32"] * statement.lanes / device.levels[0].units,
        lane_use=utilisation(lanes, statement.lanes),
        together=device.levels[1].units,
        data=statement.batch.data.astype(np.float64),
    )


def arithmetic(ops: Mapping[str, int]) -> int:
    """Arithmetic operations of one instance."""
    return sum(ops.get(kind, 0) for kind in _ARITHMETIC)


def _run(statement: CpuInspection, access: Access, step: int) -> Floats:
    """Elements of the last dimension that one step loads, or that a copy walks in its own loops."""
    table = [widths[-1] if widths else 1.0 for widths in widths_by_depth(access, statement.loops)]
    m = len(statement.batch)
    if statement.reducing:
        return np.ones(m) * table[step]
    positions = np.array([statement.batch.statement.loops.index(loop) for loop in statement.loops])
    shared = (positions[:, None] < statement.batch.branch).sum(axis=0)
    runs = np.stack([np.broadcast_to(width, m) for width in table])
    return np.asarray(runs[shared, np.arange(m)], dtype=np.float64)
