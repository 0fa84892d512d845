"""What a statement asks of one multiprocessor of a GPU, in cycles and by cause.

Small kernels are bound by the instructions that a scheduler issues and by latency, much less by bandwidth:
few outputs a thread, enough blocks and few, long, unrolled steps win, not large tiles. So the cycles are
those of the multiprocessor with the most blocks, step by step: arithmetic, operands from shared memory that
the unrolled tile does not meet again, the instructions and the sectors of a step's fetches, and for every
step a latency and the iterations of the loops that stay loops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection
from pruner.analyzer.gpu_reuse import distinct, run, warp_sectors
from pruner.search.members import accesses

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GpuCosts:
    """What no data sheet tells, in cycles of a scheduler unless it says otherwise. Round figures, the same
    for every device, set while looking at A100 programs; `body` at those of an RTX 3080. On the A100 any of
    them can be half or twice as large with little change to a draft.

    vectors: part of the shared loads that are left after neighbours are joined to one load. local: of an
    accumulator's way to local memory and back. fetch, element: of a fetch instruction, and of each of its
    elements, whose address it needs; `padded` times as many with a test for padding. strided: of each further
    group of sectors that a padded fetch of several lanes touches, because it is done lane by lane. iteration:
    of a loop that stays a loop, in cycles of the whole step. unrolled: statements up to which a loop costs
    nothing, unrolled or not. operation: of an epilogue. access: of its load or store. body: instructions of a
    loop that the schedulers hold; beyond that they wait for each, which is hidden where a multiply-add keeps
    the lanes busy for two cycles. alone: what a block's own instructions take without others beside it, as a
    factor.
    """

    vectors: float = 0.5
    local: float = 4.0
    fetch: float = 3.0
    element: float = 2.5
    padded: float = 2.0
    strided: float = 5.0
    iteration: float = 50.0
    unrolled: float = 24.0
    operation: float = 2.0
    access: float = 8.0
    body: float = 600.0
    alone: float = 1.5


# A step's padded fetches follow one another: each ends with a store that waits for its load. Others are under
# way together, as many as the compiler finds registers for.
_TOGETHER = 16.0
# Sectors of different lanes that one instruction can touch at most.
_SECTORS = 8.0


@dataclass(frozen=True, eq=False)
class Work:
    """Cycles of the multiprocessor with the most blocks, float64[m] each: `busy` what its schedulers and
    pipes have to do, `alone` what its blocks take one wave after another when nothing hides their waiting.

    issue: arithmetic. shared: operands from shared memory, local memory. fetch: instructions that bring data
    from memory. memory: sectors. latency: steps that begin, and iterations of loops.
    """

    issue: Floats
    shared: Floats
    fetch: Floats
    memory: Floats
    latency: Floats
    alone: Floats


class Grid:
    """How a kernel's blocks and warps are spread, float64[m] each.

    blocks: on the fullest multiprocessor. waves: how often it is filled. warps: that each of its schedulers
    runs, over all waves. own: of one block, on one scheduler.
    """

    def __init__(
        self, statement: GpuInspection, device: Device, resident: Floats, kept: frozenset[str]
    ) -> None:
        kernel, schedulers = statement.kernel, device.levels[1].units
        each = kernel.blocks / device.cores
        self.blocks = np.ceil(each) if "l2_compute" in kept else each
        self.waves = np.ceil(self.blocks / resident) if "l2_compute" in kept else each / resident
        warps = kernel.threads / device.sm.warp
        if "l0_compute" in kept:
            warps = np.ceil(warps)
        self.block_warps = warps
        self.warps = self.blocks * warps / schedulers
        self.own = np.ones_like(warps)
        if "l1_compute" in kept:
            # A scheduler has a whole warp or none; each wave takes as long as its fullest scheduler.
            self.warps = np.maximum(np.ceil(self.warps), self.waves)
            self.own = np.maximum(np.ceil(warps / schedulers), 1.0)


def work(
    statement: GpuInspection, device: Device, resident: Floats, kept: frozenset[str], costs: GpuCosts
) -> Work:
    """The work of a batch of statements. resident: float64[m], blocks that a multiprocessor holds at once.
    kept: the penalties in force."""
    grid = Grid(statement, device, resident, kept)
    if statement.fetches:
        return _fetching(statement, device, grid, kept, costs)
    staged = [
        i
        for i in _reads(statement)
        if accesses(statement.batch.statement)[i].buffer.scope.startswith("shared")
    ]
    if statement.reducing and staged:
        return _multiplying(statement, device, grid, staged, kept, costs)
    return _streaming(statement, device, grid, kept, costs)


def _fetching(
    statement: GpuInspection, device: Device, grid: Grid, kept: frozenset[str], costs: GpuCosts
) -> Work:
    """A cooperative fetch into shared memory."""
    batch, steps, turns = statement.batch, statement.product("R0"), statement.turns
    lanes = np.maximum(statement.lanes, 1.0)
    padded = bool(batch.statement.ops.get("select"))
    nothing = fetch = memory = alone = np.zeros(len(batch))
    if "l1_memory" in kept:
        each = costs.fetch + costs.element * lanes * (costs.padded if padded else 1.0)
        if padded:
            each = each + costs.strided * lanes * (np.minimum(lanes, _SECTORS) - 1.0)
        fetch = grid.warps * steps * turns * each
    for i in _reads(statement):
        access = accesses(batch.statement)[i]
        if "l2_memory" in kept and access.buffer.scope == "global":
            sectors = statement.elements * access.buffer.itemsize / _sector_use(statement, i, device)
            memory = memory + grid.blocks * steps * sectors * _sector_cycles(device)
    if "l1_compute" in kept:
        far = batch.data > device.levels[-2].capacity
        rounds = turns if padded else np.ceil(turns / _TOGETHER)
        alone = np.where(far, grid.waves * steps * rounds * device.sm.memory_latency, 0.0)
    return Work(nothing, nothing, fetch, memory, nothing, alone)


def _multiplying(
    statement: GpuInspection,
    device: Device,
    grid: Grid,
    staged: list[int],
    kept: frozenset[str],
    costs: GpuCosts,
) -> Work:
    """A reduction whose operands lie in shared memory."""
    code, steps = statement.code, statement.product("R0")
    instances = statement.product("vthread", "R1", "S3", "R2", "S4")
    operation = device.sm.warp / device.levels[0].units * _slower(statement, device)
    issue = grid.warps * steps * instances * operation
    alone = np.zeros_like(issue)
    each = [distinct(statement, i) / code.size for i in staged]
    loads = np.sum(each, axis=0)
    words = np.sum([load * _words(statement, i) for i, load in zip(staged, each, strict=True)], axis=0)
    near = np.zeros_like(issue)
    if "l1_memory" in kept:
        near = near + grid.warps * steps * instances * words * _shared_cycles(device) * costs.vectors
        if operation <= 1.0:
            over = np.clip((code.size * (1.0 + loads) - costs.body) / (costs.body / 2), 0.0, 1.0)
            near = near + grid.warps * steps * instances * (1.0 + loads) * over
    if "l0_memory" in kept:
        near = near + np.where(code.kept, 0.0, costs.local * grid.warps * steps * instances)
    latency = np.zeros_like(issue)
    if "l1_compute" in kept:
        # nvcc unrolls a reduction into one accumulator by itself.
        single = statement.product("vthread", "S3", "S4") <= 1
        straight = np.where(single, np.maximum(code.copied, code.size), code.copied)
        turns = instances / np.maximum(straight, np.minimum(costs.unrolled, instances))
        latency = grid.waves * steps * (device.sm.cache_latency + costs.iteration * turns)
        alone = costs.alone * grid.waves * steps * instances * grid.own * operation
    return Work(issue, near, np.zeros_like(issue), np.zeros_like(issue), latency, alone)


def _streaming(
    statement: GpuInspection, device: Device, grid: Grid, kept: frozenset[str], costs: GpuCosts
) -> Work:
    """A statement between registers and memory: an epilogue, a copy, a reduction without shared memory."""
    batch, code = statement.batch, statement.code
    each = statement.product("vthread", "R0", "R1", "S3", "R2", "S4")
    issue = grid.warps * each * costs.operation * _operations(statement)
    fetch, memory, latency = np.zeros_like(issue), np.zeros_like(issue), np.zeros_like(issue)
    reached = [i for i in statement.distinct if accesses(batch.statement)[i].buffer.scope == "global"]
    for i in reached:
        loads = each * distinct(statement, i) / code.size
        if "l1_memory" in kept:
            fetch = fetch + grid.warps * loads * costs.access
        if "l2_memory" in kept:
            sectors = warp_sectors(statement, i, device)
            memory = memory + grid.blocks * grid.block_warps * loads * sectors * _sector_cycles(device)
    if "l1_compute" in kept:
        waits = np.maximum(each / code.size, 1.0) if reached else statement.product("R0")
        latency = grid.waves * waits * device.sm.memory_latency
    return Work(issue, np.zeros_like(issue), fetch, memory, latency, np.zeros_like(issue))


def _reads(statement: GpuInspection) -> list[int]:
    reads = len(statement.batch.statement.reads)
    return [i for i in statement.distinct if i < reads]


def _operations(statement: GpuInspection) -> float:
    """Instructions of one instance; tests and addresses of unrolled code are worked out by the compiler."""
    ops = statement.batch.statement.ops
    if statement.reducing:
        return 1.0
    return max(1.0, float(max(ops.get("add", 0), ops.get("mul", 0)) + ops.get("max", 0)))


def _slower(statement: GpuInspection, device: Device) -> float:
    """How much longer an operation takes than in float32: in float64. Half floats gain only in pairs, which
    generated code does not make."""
    single = device.peak["float32"]
    return max(1.0, single / device.peak.get(statement.batch.statement.dtype, single))


def _words(statement: GpuInspection, i: int) -> float:
    """Words of 4 bytes that a load of access `i` takes of every lane; half a one takes as long."""
    return max(1.0, accesses(statement.batch.statement)[i].buffer.itemsize / 4)


def _sector_cycles(device: Device) -> float:
    """Cycles that a multiprocessor's share of the last cache's bandwidth takes for one sector."""
    cache = device.levels[-2]
    return device.transaction * device.frequency * device.cores / cache.bandwidth


def _shared_cycles(device: Device) -> float:
    """Cycles of one scheduler that a warp's load of 4 bytes a lane from shared memory takes, if all the
    schedulers load at once."""
    near = device.levels[1]
    return device.sm.warp * 4.0 * device.frequency * device.cores / near.bandwidth * near.units


def _sector_use(statement: GpuInspection, i: int, device: Device) -> Floats:
    """float64[m], bytes used of one sector on average: a run that does not begin with a sector touches one
    more in most places."""
    access, unit = accesses(statement.batch.statement)[i], float(device.transaction)
    size = access.buffer.itemsize
    bytes_ = np.minimum(run(statement, access), statement.elements) * size
    sectors = np.where(bytes_ % unit == 0, bytes_ / unit, (bytes_ + unit - size) / unit)
    return np.asarray(bytes_ / sectors)
