"""A CPU draft model that follows what LLVM does with the tiles: cycles of the inner code, caches, cores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.codegen import Rewrite, rewrite
from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel
from pruner.analyzer.footprints import Reach, inputs, reach
from pruner.analyzer.penalties import kept_penalties
from pruner.analyzer.registers import RegisterTile, register_tile
from pruner.analyzer.roles import roles
from pruner.analyzer.statements import StatementBatch, batches
from pruner.search.nest import Nest
from pruner.search.population import Population

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Cycles on one core, by what causes them. They hold for the out-of-order cores of the last decade.

    operation: a vector operation on one of two pipes. latency: of a dependent multiply-add. load, store:
    a vector register. spill: an accumulator that leaves its register and comes back. lane: a scalar load put
    into a vector, or taken out for a store. branch: a padding test on the way to an operand. loop: closing
    an iteration. divide, call: a vector division, and a call of libm for one element. slp: what LLVM loses
    when it must find vectors in straight-line code, as a factor.
    """

    operation: float = 0.5
    latency: float = 4.0
    load: float = 0.5
    store: float = 1.0
    spill: float = 2.0
    lane: float = 1.0
    branch: float = 0.5
    loop: float = 1.0
    divide: float = 8.0
    call: float = 20.0
    slp: float = 1.5


@dataclass(frozen=True, eq=False)
class Terms:
    """Seconds of one statement by term, float64[m]; `total` combines them.

    peak: its operations at the peak rate of all cores. vector: l0_compute, the lanes left empty.
    registers: l0_memory, operands, accumulators and spills through the load and store pipes.
    pipes: l1_compute, chains too short for the latency, loop ends, branches, straight-line vectors.
    near: l1_memory, traffic between the private caches. far: l2_memory, traffic of shared cache and memory.
    cores: l2_compute, cores that wait for the fullest one.
    """

    peak: Floats
    vector: Floats
    registers: Floats
    pipes: Floats
    near: Floats
    far: Floats
    cores: Floats
    total: Floats


class RooflineDraft(DraftModel):
    """Predicted seconds of a CPU program: a nest takes its statements' cycles, divided over the cores its
    parallel loop can fill, plus one launch; a statement takes its inner code's cycles or, if that is more,
    its caches' traffic. Which of the six penalties a term belongs to is told in `Terms`; a removed penalty's
    term counts as ideal.

    Args:
        penalties: which penalties stay in force, one of `analyzer.penalties.CHOICES`.
        launch_s: seconds that starting and joining a parallel loop takes.
        costs: the cycle table.
    """

    def __init__(
        self,
        *,
        device: Device,
        explored: int = 8000,
        size: int = 512,
        random: int = 32,
        penalties: str = "all",
        costs: Costs | None = None,
    ) -> None:
        super().__init__(device=device, explored=explored, size=size, random=random)
        self.kept = kept_penalties(penalties)
        self.costs = costs or Costs()

    def score(self, population: Population) -> Floats:
        return self.seconds(population.space.nests(population), len(population))

    def seconds(self, groups: Iterable[tuple[NDArray[np.int64], Nest]], n: int) -> Floats:
        """float64[n] predicted seconds of the candidates in `groups`, as `Space.nests` yields them."""
        total = np.zeros(n)
        parts = batches(groups)
        for batch, code in zip(parts, rewrite(parts), strict=True):
            np.add.at(total, batch.rows, self.statement(batch, code).total)
            if "l2_compute" in self.kept:
                head = (batch.slot == batch.nest) & (code.chunks > 1)
                total[batch.rows[head]] += self.device.launch
        return total

    def statement(self, batch: StatementBatch, code: Rewrite) -> Terms:
        """The terms of one batch of statements."""
        device = self.device
        extents = batch.extents().astype(np.float64)
        touched = reach(batch, extents, device.transaction)
        widest = max(access.buffer.itemsize for access in touched.accesses)
        tile = register_tile(
            batch,
            extents,
            code,
            touched,
            roles(batch.statement),
            lanes=max(1, device.vector_bytes // widest),
            registers=device.registers,
        )
        return self.combine(batch, code, extents, touched, tile, max(1, device.vector_bytes // widest))

    def combine(
        self,
        batch: StatementBatch,
        code: Rewrite,
        extents: Floats,
        touched: Reach,
        tile: RegisterTile,
        lanes: int,
    ) -> Terms:
        """Cycles and bytes to seconds, the statement spread over the cores of its nest's parallel loop."""
        device, cost, kept = self.device, self.costs, self.kept
        statement = batch.statement
        reducing = bool(statement.reduces) or statement.has_init
        instances = np.prod(extents, axis=0)
        ops, calls = _operations(statement.ops)
        operation = cost.operation * ops
        ideal = instances / lanes * operation + instances * calls * cost.call
        runs = tile.instances if "l0_compute" in kept else instances / lanes

        moved = 1.0 / tile.kept if reducing else 1.0
        load = cost.load * (tile.loads + (moved if reducing else 0.0))
        per_lane = np.where(tile.scattered, tile.lanes, 1.0)
        registers = np.hypot(load, cost.store * moved * per_lane)
        extra = cost.spill * tile.spilled if reducing else 0.0
        gather = cost.lane * tile.lanes * tile.gathered
        if "l0_memory" not in kept:
            registers, extra, gather = 0.0, 0.0, 0.0
        chain, idle = operation, 0.0
        if "l1_compute" in kept:
            if reducing:
                chain = np.maximum(operation, cost.latency / tile.chains)
            idle = cost.loop / tile.body
            if statement.ops.get("select"):
                idle = idle + cost.branch * (tile.loads if reducing else 1.0)
        cycles = runs * (np.hypot(chain, registers) + extra + gather + idle)
        if "l1_compute" in kept:
            cycles = cycles * np.where(tile.unrolled_vector, cost.slp, 1.0)
        cycles = cycles + instances * calls * cost.call

        share = np.where(code.chunks > 1, np.ceil(code.chunks / device.cores) / code.chunks, 1.0)
        if "l2_compute" not in kept:
            share = np.full(len(batch), 1.0 / device.cores)
        core = cycles / device.frequency * share
        weights = (*(1.0 for _ in inputs(statement)), *((2.0 if reducing else 1.0) for _ in statement.writes))
        near, far = np.zeros(len(batch)), np.zeros(len(batch))
        for level, outer in zip(device.levels[1:], device.levels[2:], strict=False):
            traffic = touched.traffic(0.8 * level.capacity, weights)
            traffic = np.where(batch.data <= level.capacity, 0.0, traffic)
            seconds = traffic / outer.bandwidth * share * device.cores
            if not outer.shared:
                near = np.hypot(near, seconds)
            else:
                far = np.hypot(far, seconds)
        near = near if "l1_memory" in kept else np.zeros_like(near)
        far = far if "l2_memory" in kept else np.zeros_like(far)
        total = np.sqrt(core**2 + near**2 + far**2)
        return Terms(ideal, core, core, core, near, far, share, total)


def _operations(ops: object) -> tuple[float, float]:
    """Vector operations of one instance, multiply and add fused, and its calls of libm."""
    counts = dict(ops)  # type: ignore[call-overload]
    fused = min(counts.get("add", 0), counts.get("mul", 0))
    simple = sum(counts.get(kind, 0) for kind in ("add", "mul", "max", "cmp", "select")) - fused
    slow = counts.get("div", 0) + counts.get("mod", 0)
    calls = counts.get("exp", 0) + counts.get("other", 0)
    return float(simple + 16 * slow), float(calls)
