"""What the workers must know about the device that their programs run on: a CPU or a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir import dlight
from tvm.target import Target

from pruner.measure import affinity


class Runtime(ABC):
    """device: where arrays lie and programs run."""

    device: Any

    @abstractmethod
    def start(self) -> None:
        """Prepares a worker's process, before its first program."""

    @abstractmethod
    def apart(self) -> AbstractContextManager[None]:
        """Open while a program is timed."""

    @abstractmethod
    def quieten(self) -> None:
        """Returns when nothing of this process occupies the device any more."""

    @abstractmethod
    def finished(self, function: Callable[..., None], arguments: list[Any]) -> Callable[[], None]:
        """A call of the function that returns when the program has finished."""


class CpuRuntime(Runtime):
    """Programs share the cores with TVM's threads and with the other workers."""

    def __init__(self) -> None:
        self.device = tvm.cpu()

    def start(self) -> None:
        affinity.start_pool()

    def apart(self) -> AbstractContextManager[None]:
        return affinity.apart()

    def quieten(self) -> None:
        affinity.wait_until_idle()

    def finished(self, function: Callable[..., None], arguments: list[Any]) -> Callable[[], None]:
        return lambda: function(*arguments)


class GpuRuntime(Runtime):
    """Programs have the GPU to themselves: the tuner runs them one by one, whatever the cores do."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def start(self) -> None:
        return None

    def apart(self) -> AbstractContextManager[None]:
        return nullcontext()

    def quieten(self) -> None:
        self.device.sync()

    def finished(self, function: Callable[..., None], arguments: list[Any]) -> Callable[[], None]:
        """A launch returns at once. The first one loads the code, which takes longer than most kernels
        run, so it is made here."""

        def call() -> None:
            function(*arguments)
            self.device.sync()

        call()
        return call


def runtime_of(target: Target) -> Runtime:
    """The runtime of programs for the target."""
    return GpuRuntime(tvm.cuda(0)) if target.kind.name == "cuda" else CpuRuntime()


def untuned(mod: IRModule, target: Target) -> IRModule:
    """The program as it stands, in a form that runs: on a GPU its outer loops are bound to threads, as TVM
    does by default for what nobody tuned."""
    if target.kind.name != "cuda":
        return mod
    with target:
        return dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(mod)
