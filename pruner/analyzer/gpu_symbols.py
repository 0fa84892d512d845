"""The symbols of Pruner (ASPLOS 2025, section 4.1, figure 3) in the paper's own form, on GPU programs.

Loads into shared memory have the traffic, computations have the work. A load takes S1 and S3 of its kernel,
so that their penalties slow it down.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection
from pruner.analyzer.gpu_reuse import run
from pruner.analyzer.gpu_statement import THREAD
from pruner.analyzer.symbols import Symbols, arithmetic
from pruner.search.members import accesses

Floats = NDArray[np.float64]


def gpu_symbols(statement: GpuInspection, device: Device) -> Symbols:
    """The symbols of a batch of statements on a GPU."""
    kernel, batch = statement.kernel, statement.batch
    ops = arithmetic(batch.statement.ops)
    traffic, runs = [], []
    for i, access in enumerate(accesses(batch.statement)):
        if access.buffer.scope == "global":
            traffic.append(_elements(statement, i) * access.buffer.itemsize)
            runs.append(run(statement, access) * access.buffer.itemsize)
    work = statement.product(*THREAD)
    use = np.ones(len(batch))
    if ops and not statement.fetches:
        # The released code's term for operands that come from shared memory, (r + 1) / r in latency, where r
        # - 1 is operations for every element that a thread touches; the paper's own term is not printed.
        touched = np.sum([statement.touched(i, *THREAD) for i in statement.distinct], axis=0)
        reuse = 1.0 + work * ops / touched
        use = reuse / (reuse + 1.0)
    return Symbols(
        register_bytes=kernel.register_bytes,
        register_work=work,
        private_bytes=kernel.staged_bytes,
        private_units=kernel.threads,
        traffic=tuple(traffic),
        cores=kernel.blocks,
        runs=tuple(runs),
        operations=statement.instances * ops,
        rate=device.peak.get(batch.statement.dtype, device.peak["float32"]),
        lane_use=use,
        together=device.sm.warp,
        data=batch.data.astype(np.float64),
    )


def _elements(statement: GpuInspection, i: int) -> Floats:
    """float64[m], elements of a global access that all blocks load or store: what a step fetches times the
    steps, or what every thread touches."""
    kernel = statement.kernel
    if statement.fetches:
        touched = statement.product("R0") * statement.elements
    else:
        touched = kernel.threads * statement.touched(i, *THREAD)
    return kernel.blocks * touched
