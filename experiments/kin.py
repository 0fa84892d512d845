"""Which tasks are kin: they differ in what is done before or after their main reduction, and no more.

The programs of a convolution with a bias are nearly those of the same convolution with a bias and a ReLU. A
model that has trained on the one has seen the other, so that both must be on one side of a split over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm_ffi
from tvm.ir import IRModule
from tvm.s_tir import SBlock

from pruner.statements import statements

_REDUCE = 2  # IterVar::kCommReduce


def families(modules: Sequence[IRModule]) -> list[list[int]]:
    """Positions of the modules, one list a family, in the order of their first members.

    Two modules are kin when TVM holds their main reductions to be equal: iteration ranges, buffers' shapes
    and types, indices and arithmetic; names do not count. The main reduction is the block with a reduction
    that has the most iterations. Modules without one are kin when they are equal altogether.
    """
    found: list[list[int]] = []
    told: list[SBlock | IRModule] = []
    for position, module in enumerate(modules):
        reduction = _main_reduction(module)
        told.append(one := module if reduction is None else reduction)
        for family in found:
            if tvm_ffi.structural_equal(told[family[0]], one, map_free_vars=True):
                family.append(position)
                break
        else:
            found.append([position])
    return found


def family_id(module: IRModule) -> str:
    """The same for kin, in every process with one TVM (0.27, say), so that it can be kept: TVM's structural
    hash of what `families` compares, in hexadecimal."""
    reduction = _main_reduction(module)
    told = module if reduction is None else reduction
    return f"{tvm_ffi.structural_hash(told, map_free_vars=True):016x}"


def program_id(module: IRModule) -> str:
    """The same for modules that are equal, names aside; kept as `family_id` is."""
    return f"{tvm_ffi.structural_hash(module, map_free_vars=True):016x}"


def _main_reduction(module: IRModule) -> SBlock | None:
    reductions = [
        block
        for block, _ in statements(module["main"].body)
        if isinstance(block, SBlock) and any(int(axis.iter_type) == _REDUCE for axis in block.iter_vars)
    ]
    return max(reductions, key=_iterations, default=None)


def _iterations(block: SBlock) -> int:
    """Extents that are no constants count as 1."""
    return math.prod(int(getattr(axis.dom.extent, "value", 1)) for axis in block.iter_vars)
