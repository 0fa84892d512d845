"""The columns of the `symbols` features that describe one statement of a GPU program.

The columns are those of a CPU, for the same roles: a block stands where a chunk of the parallel loop does, a
thread where a lane does, a warp where a vector does. `outer` is blocks and threads, S2 the virtual threads
with S3, R1 both inner reductions, S3 is S4. What a CPU keeps in a core's caches is a block's shared memory,
what it keeps in vector registers is a thread's registers; operands that a CPU gathers are those that a GPU's
threads read from global memory themselves.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection
from pruner.analyzer.gpu_roofline import resident_blocks
from pruner.analyzer.roles import ROLES
from pruner.features.cpu_columns import innermost
from pruner.search.members import accesses

Floats = NDArray[np.float64]
Columns = dict[str, Floats]

# The loops of a GPU that have the role of a CPU's.
_LOOPS = {
    "outer": ("blockIdx", "threadIdx"),
    "R0": ("R0",),
    "S2": ("vthread", "S3"),
    "R1": ("R1", "R2"),
    "S3": ("S4",),
}


def gpu_columns(statement: GpuInspection, device: Device) -> Columns:
    """The columns that describe the main statement, float64[m] each."""
    kernel, code, batch = statement.kernel, statement.code, statement.batch
    m, touches = len(batch), accesses(batch.statement)
    columns: Columns = {}

    def bytes_of(i: int, *roles: str) -> Floats:
        return statement.touched(i, *roles) * touches[i].buffer.itemsize

    inside: tuple[str, ...] = ()
    *operands, output = statement.distinct
    for role in reversed(ROLES):
        levels = statement.roles.inside(_LOOPS[role], statement.loops)
        columns[f"{role}_product"] = statement.product(*_LOOPS[role])
        columns[f"{role}_loops"] = (statement.extents[levels] > 1).sum(axis=0).astype(float)
        inside = (*inside, *_LOOPS[role])
        if role != "outer":
            columns[f"bytes_in_{role}"] = np.sum([bytes_of(i, *inside) for i in statement.distinct], axis=0)
        if role in ("S3", "S2"):
            name = "tile" if role == "S3" else "step"
            inputs = [bytes_of(i, *inside) for i in operands] or [np.zeros(m)]
            columns[f"largest_input_{name}"] = np.max(inputs, axis=0)
            columns[f"smallest_input_{name}"] = np.min(inputs, axis=0)
            columns[f"output_{name}"] = bytes_of(output, *inside)
    columns["bytes_in_outer"] = batch.data.astype(float)
    resident = resident_blocks(kernel, device)
    waves = np.ceil(kernel.blocks / device.cores)
    held = np.where(code.kept, code.accumulators, 0.0)
    reduction = statement.product("R1", "R2")
    over = np.maximum(kernel.registers - kernel.limit, 0.0) / kernel.registers
    columns |= {
        "innermost_spatial": innermost(statement, reduction=False),
        "innermost_reduction": innermost(statement, reduction=True),
        "chunks": kernel.blocks,
        "imbalance": waves * device.cores / kernel.blocks,
        # How often a multiprocessor is filled, and with how many blocks.
        "serial_outer": np.maximum(waves / resident, 1.0),
        "parallel_loops": np.minimum(resident, waves),
        "vector_loops": kernel.vthreads,
        "vector_lanes": kernel.threads,
        "unroll": np.where(batch.unrolls, batch.unroll, 0).astype(float),
        "unrolled_tile": (code.size >= columns["S3_product"]).astype(float),
        "unrolled_reduction": (code.size >= columns["S3_product"] * reduction).astype(float),
        "unrolled_wide": (code.size >= columns["S3_product"] * columns["S2_product"]).astype(float),
        # What the compiler could not do with the code: accumulators in local memory.
        "straight": (kernel.local_bytes > 0).astype(float),
        "lanes": kernel.threads,
        "vectors": np.ceil(kernel.threads / device.sm.warp),
        "instances": statement.instances / kernel.threads,
        # Copies for a software pipeline.
        "own_vector": (kernel.shared_bytes >= 2 * np.maximum(kernel.staged_bytes, 1.0)).astype(float),
        "tile": code.accumulators,
        "wide": kernel.registers,
        "inner": reduction,
        "kept": np.where(code.kept, reduction * statement.product("R0"), 1.0),
        "promoted": code.kept.astype(float),
        "chains": np.maximum(held, 1.0),
        "loads": code.operands / code.size,
        "gathered": np.full(m, float(sum(touches[i].buffer.scope == "global" for i in operands))),
        "spilled": over,
        "body": code.size,
        # Shared memory with the copies of a pipeline, and without; local memory of all threads.
        "fetched_l1": kernel.shared_bytes,
        "fetched_private": kernel.staged_bytes,
        "fetched_shared": kernel.local_bytes * kernel.threads * kernel.blocks,
        "fits_l1": (kernel.registers <= kernel.limit).astype(float),
        "fits_private": (waves <= resident).astype(float),
        "data": batch.data.astype(float),
        "select": np.full(m, float(bool(batch.statement.ops.get("select")))),
    }
    return columns
