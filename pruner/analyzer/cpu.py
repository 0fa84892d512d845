"""A statement on a CPU: what TVM and LLVM make of its loops, and what it touches in the caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pruner.analyzer.codegen import Rewrite, rewrite
from pruner.analyzer.device import Device
from pruner.analyzer.footprints import Reach, reach
from pruner.analyzer.inspection import Inspection
from pruner.analyzer.registers import RegisterTile, register_tile
from pruner.analyzer.roles import cpu_roles
from pruner.analyzer.statements import StatementBatch


@dataclass(frozen=True, eq=False)
class CpuInspection(Inspection):
    """code: TVM's parallel and vector loops. touched: footprints in the caches. tile: the inner code.
    lanes: elements of the statement's type in a vector register."""

    code: Rewrite
    touched: Reach
    tile: RegisterTile
    lanes: int


def inspect_cpu(parts: Sequence[StatementBatch], device: Device) -> list[CpuInspection]:
    """The statements of `parts` on a CPU."""
    return [_inspect(batch, code, device) for batch, code in zip(parts, rewrite(parts), strict=True)]


def _inspect(batch: StatementBatch, code: Rewrite, device: Device) -> CpuInspection:
    loops, extents = batch.live_loops()
    roles = cpu_roles(batch.statement)
    touched = reach(batch, loops, extents, device.transaction)
    lanes = max(1, device.vector_bytes // max(access.buffer.itemsize for access in touched.accesses))
    tile = register_tile(batch, loops, extents, code, touched, roles, lanes=lanes, registers=device.registers)
    return CpuInspection(batch, loops, extents, roles, code, touched, tile, lanes)
