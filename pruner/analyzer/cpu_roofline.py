"""A roofline of CPU programs that follows what LLVM does with the tiles: cycles of the inner code, caches,
cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.cpu import CpuInspection
from pruner.analyzer.device import Device
from pruner.analyzer.registers import LLVM_UNROLL, RegisterTile
from pruner.analyzer.terms import Terms

Floats = NDArray[np.float64]

# Lines that a set of the L1 cache holds, in most cores.
_WAYS = 8


@dataclass(frozen=True)
class Costs:
    """Cycles on one core, by what causes them. They hold for the out-of-order cores of the last decade.

    latency: of a dependent multiply-add. load, store: a vector register. spill: an accumulator that leaves
    its register and comes back. lane: a scalar load put into a vector, or taken out for a store. branch: a
    padding test on the way to an operand. loop: closing an iteration. divide: a vector division. call: of
    libm, for one element. window: vector operations that the core looks ahead. crowd: an accumulator in a
    set of the L1 cache that is overfull.

    Factors: straight: what LLVM loses when it must find vectors in straight-line code, `long` statements of
    it; longer code loses in proportion. found: what a vector loop of LLVM's own loses, which it makes in some
    programs only, and around more than `body` statements in few: then twice as much. swell: straight-line
    code of more than LLVM_UNROLL vector operations loses with this power of its length: operands are spilled
    where many are in flight, and instructions come from farther away.
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
    window: float = 128.0
    crowd: float = 10.0
    straight: float = 1.25
    long: float = 96.0
    found: float = 1.3
    body: float = 32.0
    swell: float = 0.1


def cpu_terms(statement: CpuInspection, device: Device, kept: frozenset[str], costs: Costs) -> Terms:
    """The terms of one batch of statements; none of the three hides the others completely."""
    chunks = statement.code.chunks
    share = np.full(len(statement.batch), 1.0 / device.cores)
    if "l2_compute" in kept:
        share = np.where(chunks > 1, np.ceil(chunks / device.cores) / chunks, 1.0)
    core = _cycles(statement, device, kept, costs) / device.frequency * share
    near, far = np.zeros_like(core), np.zeros_like(core)
    for level, outer in zip(device.levels[1:], device.levels[2:], strict=False):
        # What the cache holds from one call to the next is not fetched at all.
        traffic = np.where(
            statement.batch.data <= level.capacity, 0.0, statement.touched.traffic(level.capacity)
        )
        seconds = traffic / outer.bandwidth * share * device.cores
        if outer.shared and "l2_memory" in kept:
            far = np.hypot(far, seconds)
        if not outer.shared and "l1_memory" in kept:
            near = np.hypot(near, seconds)
    return Terms(core, near, far, np.sqrt(core**2 + near**2 + far**2), share)


def _cycles(statement: CpuInspection, device: Device, kept: frozenset[str], cost: Costs) -> Floats:
    """float64[m] cycles of the inner code on one core."""
    tile = statement.tile
    ops = statement.batch.statement.ops
    instances = statement.instances
    operation = (_simple(ops, device.fused) + cost.divide * 2 * _slow(ops)) / device.levels[1].units
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
            crowded = np.where(tile.crowded > _WAYS, moved, 0.0)
            spills = spills + cost.spill * (tile.spilled + tile.reloaded) + cost.crowd * crowded
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
        factor = np.where(tile.own, _found(tile, cost), 1.0)
        if statement.reducing:
            factor = factor * np.maximum(1.0, tile.body / LLVM_UNROLL) ** cost.swell
    cycles = runs * (np.hypot(chain, pipes) + spills + idle) * factor
    return np.asarray(cycles + instances * cost.call * _calls(ops))


def _found(tile: RegisterTile, cost: Costs) -> Floats:
    """float64[m], how much slower code is whose vectors LLVM must find."""
    statements = tile.around * tile.lanes * tile.vectors
    straight = cost.straight * np.maximum(1.0, statements / cost.long)
    return np.where(tile.straight, straight, cost.found * np.where(tile.around > cost.body, 2.0, 1.0))


def _simple(ops: Mapping[str, int], fused: bool) -> int:
    """Vector operations of one instance; fused: a multiply and an add are one; a padding test is a branch."""
    both = min(ops.get("add", 0), ops.get("mul", 0)) if fused else 0
    return sum(ops.get(kind, 0) for kind in ("add", "mul", "max", "cmp", "cast")) - both


def _slow(ops: Mapping[str, int]) -> int:
    return sum(ops.get(kind, 0) for kind in ("div", "mod", "root"))


def _calls(ops: Mapping[str, int]) -> int:
    return ops.get("exp", 0) + ops.get("other", 0)
