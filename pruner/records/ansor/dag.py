"""The stages of a tensor program, as Ansor numbers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import te
from tvm.te import Tensor

# Ansor counts the points of a loop nest with 32 bits.
_POINTS = 2**31 - 1
_RANK = 8


@dataclass(frozen=True)
class StageInfo:
    """name: of the operation, its buffer and its block. spatial, reduce: the extents of its axes."""

    name: str
    spatial: tuple[int, ...] = ()
    reduce: tuple[int, ...] = ()
    placeholder: bool = False


def stages_of(tensors: Sequence[Tensor]) -> tuple[StageInfo, ...]:
    """The operations behind the tensors: producers before consumers, in the order in which they are read.

    Raises ValueError for an operation that is no plain computation or too large, and for names that occur
    twice."""
    found: dict[te.Operation, StageInfo] = {}

    def visit(tensor: Tensor) -> None:
        operation = tensor.op
        if operation in found:
            return
        for source in operation.input_tensors:
            visit(source)
        found[operation] = _info(operation)

    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise ValueError(f"a {type(tensor).__name__} where a te tensor belongs")
        if not isinstance(tensor.op, te.PlaceholderOp):
            visit(tensor)
    for tensor in tensors:
        visit(tensor)
    stages = tuple(found.values())
    names = [stage.name for stage in stages]
    if len(set(names)) != len(names):
        raise ValueError(f"operations share a name: {', '.join(names)}")
    return stages


def check_extents(name: str, extents: Sequence[int]) -> None:
    """Raises ValueError for a tensor, or a reduction, that has more axes or points than a log can hold."""
    if len(extents) > _RANK:
        raise ValueError(f"{name} has {len(extents):,} axes; up to {_RANK} are read")
    if min(extents, default=1) < 1 or prod(extents) > _POINTS:
        raise ValueError(f"{name} has the extents {list(extents)}; from 1 to {_POINTS:,} points are read")


def _info(operation: te.Operation) -> StageInfo:
    if isinstance(operation, te.PlaceholderOp):
        shape = tuple(int(extent) for extent in operation.output(0).shape)
        check_extents(operation.name, shape)
        return StageInfo(operation.name, shape, placeholder=True)
    if not isinstance(operation, te.ComputeOp):
        raise ValueError(f"{operation.name} is a {type(operation).__name__}")
    spatial = tuple(int(axis.dom.extent) for axis in operation.axis)
    reduce = tuple(int(axis.dom.extent) for axis in operation.reduce_axis)
    check_extents(operation.name, spatial)
    check_extents(operation.name, reduce)
    return StageInfo(operation.name, spatial, reduce)
