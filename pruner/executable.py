"""Machine code that can be called with NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm.ir import IRModule
from tvm.target import Target

from pruner.measure import gpu
from pruner.measure.build import machine_code
from pruner.measure.program import ENTRY, written_arguments
from pruner.measure.runtime import runtime_of


class Executable:
    """A compiled program. `module` is TVM's own, with the entry function `main`.

    Args:
        mod: one function called `main`, scheduled or not.
        target: what it is compiled for.

    Raises DeviceError for a cuda target where there is no GPU.
    """

    def __init__(self, mod: IRModule, target: Target) -> None:
        if target.kind.name == "cuda":
            gpu.check(target)
        self._device = runtime_of(target).device
        self.module = machine_code(mod, target)
        self._written = written_arguments(mod[ENTRY])

    def __call__(self, *arguments: Any) -> None:
        """Runs it once; results are written into the output arguments, NumPy arrays or TVM tensors.

        TVM's code takes memory to be aligned to 64 bytes, which NumPy's seldom is, and crashes otherwise:
        arrays are copied into tensors, and the outputs back. Pass tensors where that costs too much.
        """
        tensors = [tvm.runtime.tensor(a, self._device) if isinstance(a, np.ndarray) else a for a in arguments]
        self.module[ENTRY](*tensors)
        for position in self._written:
            if isinstance(arguments[position], np.ndarray):
                np.copyto(arguments[position], tensors[position].numpy())
