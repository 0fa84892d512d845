"""A CPU draft model that follows what LLVM does with the tiles: cycles of the inner code, caches, cores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel
from pruner.analyzer.inspection import Inspection, inspect, total
from pruner.analyzer.penalties import kept_penalties
from pruner.search.nest import Nest
from pruner.search.population import Population

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Cycles on one core, by what causes them. They hold for the out-of-order cores of the last decade.

    latency: of a dependent multiply-add. load, store: a vector register. spill: an accumulator that leaves
    its register and comes back. lane: a scalar load put into a vector, or taken out for a store. branch: a
    padding test on the way to an operand. loop: closing an iteration. divide: a vector division. call: of
    libm, for one element. straight: what LLVM loses when it must find vectors in straight-line code, as a
    factor. window: vector operations that the core looks ahead.
    """

    latency: float = 4.0
    load: float = 0.5
    store: float = 1.0
    spill: float = 2.0
    lane: float = 1.0
    branch: float = 0.5
    loop: float = 0.5
    divide: float = 8.0
    call: float = 20.0
    straight: float = 1.5
    window: float = 128.0


@dataclass(frozen=True, eq=False)
class Terms:
    """Seconds of one statement, float64[m].

    core: the inner code. near: traffic between private caches. far: traffic of shared cache and memory.
    total: the three together, none of which hides the others completely. share: the part of the work that
    the fullest core gets.
    """

    core: Floats
    near: Floats
    far: Floats
    total: Floats
    share: Floats


class RooflineDraft(DraftModel):
    """Predicted seconds of a CPU program: a nest takes its statements' cycles, divided over the cores its
    parallel loop can fill, plus one launch; a statement takes its inner code's cycles or, if that is more,
    its caches' traffic.

    What each penalty stands for, and what its removal makes ideal: l0_compute, lanes left empty; l0_memory,
    operands, accumulators and spills through the load and store pipes; l1_compute, chains too short for the
    latency, loop ends, padding tests, straight-line vectors; l1_memory, traffic between private caches;
    l2_memory, traffic of shared cache and memory; l2_compute, cores that wait, and launches.

    Args:
        penalties: which penalties stay in force, one of `analyzer.penalties.CHOICES`.
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
        statements = inspect(groups, self.device)
        return total(statements, [self.terms(s).total + self.launches(s) for s in statements], n)

    def launches(self, statement: Inspection) -> Floats:
        """float64[m] seconds for starting the nest's parallel loop, counted with its first statement."""
        batch, code = statement.batch, statement.code
        starts = (batch.slot == batch.nest) & (code.chunks > 1) & ("l2_compute" in self.kept)
        return np.where(starts, self.device.launch, 0.0)

    def terms(self, statement: Inspection) -> Terms:
        """The terms of one batch of statements."""
        device, chunks = self.device, statement.code.chunks
        share = np.full(len(statement.batch), 1.0 / device.cores)
        if "l2_compute" in self.kept:
            share = np.where(chunks > 1, np.ceil(chunks / device.cores) / chunks, 1.0)
        core = self._cycles(statement) / device.frequency * share
        near, far = np.zeros_like(core), np.zeros_like(core)
        for level, outer in zip(device.levels[1:], device.levels[2:], strict=False):
            # What the cache holds from one call to the next is not fetched at all.
            traffic = np.where(
                statement.batch.data <= level.capacity, 0.0, statement.touched.traffic(level.capacity)
            )
            seconds = traffic / outer.bandwidth * share * device.cores
            if outer.shared and "l2_memory" in self.kept:
                far = np.hypot(far, seconds)
            if not outer.shared and "l1_memory" in self.kept:
                near = np.hypot(near, seconds)
        return Terms(core, near, far, np.sqrt(core**2 + near**2 + far**2), share)

    def _cycles(self, statement: Inspection) -> Floats:
        """float64[m] cycles of the inner code on one core."""
        cost, kept, tile = self.costs, self.kept, statement.tile
        ops = statement.batch.statement.ops
        instances = np.prod(statement.extents, axis=0)
        operation = (_simple(ops) + cost.divide * 2 * _slow(ops)) / self.device.levels[1].units
        runs = tile.instances if "l0_compute" in kept else instances / statement.lanes
        moved = 1.0 / tile.kept if statement.reducing else np.ones(len(statement.batch))

        pipes, spills = np.zeros_like(moved), np.zeros_like(moved)
        if "l0_memory" in kept:
            per_store = np.where(tile.scattered, tile.lanes, 1.0)
            loads = tile.loads + (moved if statement.reducing else 0.0)
            stores = np.where(tile.local, 0.0, moved * per_store)
            pipes = np.hypot(cost.load * loads, cost.store * stores)
            spills = cost.lane * tile.lanes * tile.gathered
            if statement.reducing:
                spills = spills + cost.spill * tile.spilled
        chain, idle, factor = np.full_like(moved, operation), np.zeros_like(moved), np.ones_like(moved)
        if "l1_compute" in kept:
            if statement.reducing:
                # Tiles that follow one another overlap as far as the core looks ahead.
                ahead = np.maximum(1.0, cost.window / (tile.chains * tile.kept))
                chain = np.maximum(operation, cost.latency / (tile.chains * ahead))
            # Plain copies and epilogues are unrolled four times by LLVM, whatever their loops.
            idle = cost.loop / (tile.body if statement.reducing else np.maximum(tile.body, 4.0))
            idle = np.where(tile.local, 0.0, idle)
            if ops.get("select"):
                idle = idle + cost.branch * (tile.loads if statement.reducing else 1.0 / tile.vectors)
            factor = np.where(tile.straight, cost.straight, 1.0)
        cycles = runs * (np.hypot(chain, pipes) + spills + idle) * factor
        return np.asarray(cycles + instances * cost.call * _calls(ops))


def _simple(ops: Mapping[str, int]) -> int:
    """Vector operations of one instance, multiply and add fused; a padding test is a branch."""
    fused = min(ops.get("add", 0), ops.get("mul", 0))
    return sum(ops.get(kind, 0) for kind in ("add", "mul", "max", "cmp", "cast")) - fused


def _slow(ops: Mapping[str, int]) -> int:
    return ops.get("div", 0) + ops.get("mod", 0)


def _calls(ops: Mapping[str, int]) -> int:
    return ops.get("exp", 0) + ops.get("other", 0)
