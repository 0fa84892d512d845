"""All that draft models and features read off one batch of statements, worked out once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.codegen import Rewrite, rewrite
from pruner.analyzer.device import Device
from pruner.analyzer.footprints import Reach, reach
from pruner.analyzer.registers import RegisterTile, register_tile
from pruner.analyzer.roles import Roles
from pruner.analyzer.statements import StatementBatch, batches
from pruner.search.nest import Loop, Nest


@dataclass(frozen=True, eq=False)
class Inspection:
    """One statement for `m` candidates on a device.

    loops, extents: the loops with more than one iteration in some row, outside in, and their extents,
        `depth x m` float64. lanes: elements of its type in a vector register.
    """

    batch: StatementBatch
    code: Rewrite
    loops: tuple[Loop, ...]
    extents: NDArray[np.float64]
    roles: Roles
    touched: Reach
    tile: RegisterTile
    lanes: int

    @property
    def reducing(self) -> bool:
        """Whether the statement updates its output."""
        return self.batch.statement.has_init or bool(self.batch.statement.reduces)


def inspect(groups: Iterable[tuple[NDArray[np.int64], Nest]], device: Device) -> list[Inspection]:
    """The statements of all groups, as `Space.nests` yields them; alike ones together."""
    parts = batches(groups)
    return [_inspect(batch, code, device) for batch, code in zip(parts, rewrite(parts), strict=True)]


def total(
    statements: Sequence[Inspection], values: Sequence[NDArray[np.float64]], n: int
) -> NDArray[np.float64]:
    """float64[n]: each candidate's sum of its statements' `values`, added in program order, so that the last
    bit does not depend on which candidates are scored together."""
    slots = 1 + max((int(s.batch.slot.max()) for s in statements), default=0)
    table = np.zeros((slots, n))
    for statement, value in zip(statements, values, strict=True):
        table[statement.batch.slot, statement.batch.rows] = value
    result = np.zeros(n)
    for row in table:
        result += row
    return result


def _inspect(batch: StatementBatch, code: Rewrite, device: Device) -> Inspection:
    loops, extents = batch.live_loops()
    roles = Roles(batch.statement)
    touched = reach(batch, loops, extents, device.transaction)
    lanes = max(1, device.vector_bytes // max(access.buffer.itemsize for access in touched.accesses))
    tile = register_tile(batch, loops, extents, code, touched, roles, lanes=lanes, registers=device.registers)
    return Inspection(batch, code, loops, extents, roles, touched, tile, lanes)
