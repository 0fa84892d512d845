"""What draft models and features read off one batch of statements, worked out once for each kind of
device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.analyzer.roles import Roles
from pruner.analyzer.statements import StatementBatch, batches
from pruner.search.nest import Loop, Nest


@dataclass(frozen=True, eq=False)
class Inspection:
    """One statement for `m` candidates; `cpu.CpuInspection` and `gpu.GpuInspection` add what the device's
    code generator makes of it.

    loops, extents: the loops with more than one iteration in some row, outside in, and their extents,
        `depth x m` float64. roles: theirs.
    """

    batch: StatementBatch
    loops: tuple[Loop, ...]
    extents: NDArray[np.float64]
    roles: Roles

    @property
    def reducing(self) -> bool:
        """Whether the statement updates its output."""
        return self.batch.statement.has_init or bool(self.batch.statement.reduces)

    @property
    def instances(self) -> NDArray[np.float64]:
        """float64[m], how often the loops run the statement."""
        return np.asarray(np.prod(self.extents, axis=0))


def inspect(groups: Iterable[tuple[NDArray[np.int64], Nest]], device: Device) -> list[Inspection]:
    """The statements of all groups, as `Space.nests` yields them; alike ones together."""
    from pruner.analyzer.cpu import inspect_cpu  # both need this module
    from pruner.analyzer.gpu import inspect_gpu

    parts = batches(groups)
    return [*inspect_gpu(parts, device)] if device.kind == "gpu" else [*inspect_cpu(parts, device)]


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
