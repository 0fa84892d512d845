"""The draft model of the released Pruner code: `psa_model.py` "version 6" over `feature_psa.cc`.

It differs from the paper's equation 1: a statement takes the longer of its compute and its memory time, not
their sum; nothing is said of shared memory's capacity or of transactions; registers that overflow slow down
the arithmetic, not the memory; and traffic counts elements where bytes are meant, four times too fast for
float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.formula import FormulaDraft
from pruner.analyzer.gpu import GpuInspection
from pruner.analyzer.gpu_statement import THREAD
from pruner.analyzer.inspection import Inspection
from pruner.analyzer.penalties import utilisation
from pruner.errors import ConfigError

Floats = NDArray[np.float64]

# Registers of a thread above which the code expects a slow-down.
REGISTERS = 128
# Parts of a multiprocessor with a scheduler each, and threads of a warp, on all its devices.
PARTITIONS, WARP = 4, 32
# Operations that count as floating-point work: not comparisons, not calls. Among the divisions of a statement
# are square roots, which are calls to the code: a difference in statements of a few elements.
_COUNTED = ("add", "mul", "div", "mod", "root")


@dataclass(frozen=True)
class Figures:
    """A device as the code knows it: peak in GFLOP/s, bandwidth in GB/s, multiprocessors."""

    peak: float
    bandwidth: float
    multiprocessors: int


# The code's own figures. For a K80 they are those of both its GPUs, for an Orin half of its lanes.
RELEASED = {
    "k80": Figures(8226, 480, 26),
    "t4": Figures(8141, 320, 40),
    "titan-v": Figures(14900, 651, 80),
    "orin-agx": Figures(2660, 204, 16),
    "a100-40g": Figures(19490, 1555, 108),
    "a100-80g": Figures(19490, 1935, 108),
}


@dataclass(frozen=True, eq=False)
class Features:
    """The code's features of one statement, float64[m] each; `is_gpu` is always 1.

    flops_thread: float_workload_thread. flops: ComputeWorkload. registers: RegUsage. touched: MemWorkload.
    shared: SharedMemFootprint. traffic: DRAM_workload. reuse: DataReuse. blocks, threads, vthreads: blockIdx,
    threadIdx and vthread.
    """

    flops_thread: Floats
    flops: Floats
    registers: Floats
    touched: Floats
    shared: Floats
    traffic: Floats
    reuse: Floats
    blocks: Floats
    threads: Floats
    vthreads: Floats


def features(statement: GpuInspection) -> Features:
    """The features of a batch of statements. Virtual threads count as serial loops, and in full for every
    access that moves with them."""
    batch, kernel = statement.batch, statement.kernel
    moving = [_moving(statement, i) for i in range(len(statement.moves))]
    written = moving[len(batch.statement.reads)]
    ops = sum(batch.statement.ops.get(kind, 0) for kind in _COUNTED)
    registers, touched, shared, traffic = (np.zeros(len(batch)) for _ in range(4))
    # A fetch's own loop becomes turns of lanes for every thread, and turns are whole.
    part = np.ones(len(batch))
    if statement.fetches:
        part = statement.turns * statement.lanes / statement.elements
    inner = statement.product(*THREAD) * part
    flops_thread = inner * ops
    if ops:
        for i in statement.distinct:
            registers = registers + np.prod(np.minimum(moving[i], written), axis=0)
            touched = touched + np.prod(moving[i], axis=0)
    elif batch.statement.writes[0].buffer.scope.startswith("shared"):
        shared = np.prod(written, axis=0) * part * kernel.threads
        traffic = shared * kernel.blocks
    else:
        traffic = inner * kernel.blocks * kernel.threads
    return Features(
        flops_thread=flops_thread,
        flops=flops_thread * kernel.blocks * kernel.threads,
        registers=registers,
        touched=touched,
        shared=shared,
        traffic=traffic,
        reuse=1.0 + flops_thread / touched if ops else np.ones(len(batch)),
        blocks=kernel.blocks,
        threads=kernel.threads,
        vthreads=statement.product("vthread"),
    )


def _moving(statement: GpuInspection, i: int) -> Floats:
    """`depth x m`, iterations of the serial loops that move access `i`; one for those that do not."""
    serial = statement.roles.inside(THREAD, statement.loops)
    return np.where(statement.moves[i][serial], statement.extents[serial], 1.0)


class PsaDraft(FormulaDraft):
    """The released code's Parameterized Static Analyzer, for GPUs only.

    Args:
        penalties: which of its terms stay in force, one of `analyzer.penalties.CHOICES`: `l0_memory` is its
            register term, `l0_compute` its thread term (reuse of operands), `l1_compute` its warp term and
            `l2_compute` its peak term. It has none for l1_memory and l2_memory.
        released: the code's own figures for the devices it knows, else always those of the device.

    Raises ConfigError for a device that is no GPU.
    """

    def __init__(
        self,
        *,
        device: Device,
        released: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(device=device, **settings)
        if device.kind != "gpu":
            raise ConfigError(
                f"draft=psa is a formula for GPUs and device {device.name} is none: choose draft=roofline or "
                "draft=symbol, or a GPU such as device=a100-40g."
            )
        own = Figures(device.peak["float32"] / 1e9, device.levels[-1].bandwidth / 1e9, device.cores)
        self.figures = RELEASED.get(device.name, own) if released else own

    def statement_seconds(self, statement: Inspection) -> Floats:
        assert isinstance(statement, GpuInspection)  # the device is a GPU
        return self.latency(features(statement))

    def latency(self, found: Features) -> Floats:
        """Seconds of one statement: the longer of compute and memory time."""
        ones = np.ones_like(found.blocks)
        warps = found.threads / WARP
        warp = warps / np.ceil(warps) if "l1_compute" in self.kept else ones
        thread = 1.0 + 1.0 / found.reuse if "l0_compute" in self.kept else ones
        register = np.maximum(found.registers / REGISTERS, 1.0) if "l0_memory" in self.kept else ones
        peak = self._peak(found.blocks, np.ceil(warps)) if "l2_compute" in self.kept else ones
        compute = found.flops * thread / (self.figures.peak * 1e9 * peak * warp / register)
        # GB/s over 2^30, as the code has it: elements are taken for bytes.
        memory = found.traffic / (self.figures.bandwidth * 2.0**30)
        return np.maximum(compute, memory)

    def _peak(self, blocks: Floats, warps: Floats) -> Floats:
        """The share of the schedulers that have work: whole blocks on multiprocessors, and of fewer blocks
        the warps on their parts."""
        total_ = float(self.figures.multiprocessors)
        few = blocks * np.minimum(warps, PARTITIONS)
        return np.where(blocks >= total_, utilisation(blocks, total_), utilisation(few, PARTITIONS * total_))
