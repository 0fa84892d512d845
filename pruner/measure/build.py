"""A scheduled program compiled to be called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
from tvm.target import Target

from pruner.measure.nvcc import as_tvm_compiler
from pruner.measure.program import ENTRY, Argument, arguments_of


@dataclass(frozen=True)
class Program:
    """A compiled program. `function` is already looked up: LLVM compiles at the look-up, not before.

    source: the module before compilation; rewritten: its arguments have another layout than `source` says.
    """

    source: IRModule
    arguments: tuple[Argument, ...]
    module: Any
    function: Callable[..., None]
    rewritten: bool


def build(mod: IRModule, target: Target, *, rewrite_layouts: bool = True) -> Program:
    """Compiles for timing the way MetaSchedule's default builder does: a block that only re-arranges a
    weight is dropped and the weight taken in its new layout. `rewrite_layouts=False` keeps it, so that
    the program takes the untuned program's arguments."""
    compiled = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod) if rewrite_layouts else mod
    arguments = arguments_of(compiled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = machine_code(compiled, target)
    return Program(mod, arguments, module, module[ENTRY], arguments != arguments_of(mod))


def machine_code(mod: IRModule, target: Target) -> Any:
    """TVM's compiled module; CUDA code is compiled with nvcc, as it is where nothing is timed."""
    if target.kind.name != "cuda":
        return tvm.compile(mod, target=target).mod
    with as_tvm_compiler(target):
        return tvm.compile(mod, target=target).mod
