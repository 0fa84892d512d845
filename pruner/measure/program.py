"""What a program takes, what it writes and how much it adds up."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm.ir import IRModule, PrimType
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, IterVar, PrimFunc
from tvm.tirx.buffer import is_buffer_var
from tvm_ffi import structural_walk

ENTRY = "main"


@dataclass(frozen=True)
class Argument:
    """One parameter of a PrimFunc; `shape` is None for a scalar."""

    shape: tuple[int, ...] | None
    dtype: str


def arguments_of(mod: IRModule) -> tuple[Argument, ...]:
    """The entry's parameters. Raises ValueError for symbolic shapes and bare pointers."""
    found = []
    for param in mod[ENTRY].params:
        if not is_buffer_var(param):
            if not isinstance(param.ty, PrimType):
                raise ValueError(f"argument {param.name} is a pointer without a buffer; give it a buffer")
            found.append(Argument(None, str(param.ty.dtype)))
            continue
        try:
            shape = tuple(int(extent) for extent in param.shape)
        except TypeError:
            raise ValueError(f"argument {param.name} has the symbolic shape {param.shape}") from None
        found.append(Argument(shape, str(param.dtype)))
    return tuple(found)


def written_arguments(func: PrimFunc) -> tuple[int, ...]:
    """Positions of the parameters that the program writes, in-place ones included."""
    written: list[Any] = []
    sources: list[tuple[Any, Any]] = []

    def block(node: SBlock) -> None:
        written.extend(region.source for region in node.writes)
        sources.extend((match.buffer, match.source.source) for match in node.match_buffers)

    structural_walk(func.body, [(BufferStore, lambda node: written.append(node.buffer)), (SBlock, block)])
    for alias, source in sources:
        if any(alias.same_as(buffer) for buffer in written):
            written.append(source)
    return tuple(i for i, param in enumerate(func.params) if any(param.same_as(buffer) for buffer in written))


def written_dtypes(func: PrimFunc) -> set[str]:
    """Data types of every buffer the program writes, intermediate ones included."""
    dtypes: set[str] = set()
    structural_walk(func.body, [(BufferStore, lambda node: dtypes.add(str(node.buffer.dtype)))])
    return dtypes


def reduction_length(func: PrimFunc) -> int:
    """Terms that are added up in one output element: the product of the reduction extents of a block, summed
    over the blocks that reduce; at least 1."""
    length = 0

    def block(node: SBlock) -> None:
        nonlocal length
        reduced = [int(axis.dom.extent) for axis in node.iter_vars if axis.iter_type == IterVar.CommReduce]
        length += prod(reduced) if reduced else 0

    structural_walk(func.body, [(SBlock, block)])
    return max(1, length)
