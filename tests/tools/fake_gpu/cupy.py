"""A stand-in for CuPy, with as much of its interface as `gpu_run` uses. Arrays are NumPy's; machine code is a
JSON file that says what each kernel does (`KERNELS`) and how long it takes; the GPU's clock counts that.

Its environment: FAKE_GPU_ARCH (90), or `none`; FAKE_GPU_GRAPHS=no; FAKE_GPU_SLEEP, seconds of a launch.
"""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

__version__ = "fake"

gpu: Any = SimpleNamespace(seconds=0.0, broken=False, recorded=None)


class GpuError(RuntimeError):
    """What a driver reports."""


def _check() -> None:
    if gpu.broken:
        raise GpuError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")


class ndarray:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def set(self, values: np.ndarray) -> None:
        _check()
        assert values.dtype == self.values.dtype
        self.values[...] = values

    def get(self) -> np.ndarray:
        _check()
        return self.values.copy()


def empty(shape: Any, dtype: Any) -> ndarray:
    return ndarray(np.zeros(shape, dtype))


def _matmul(x: ndarray, y: ndarray, z: ndarray) -> None:
    z.values[...] = x.values @ y.values


def _copy(source: ndarray, destination: ndarray) -> None:
    destination.values[...] = source.values


def _scribble(*arrays: ndarray) -> None:
    for array in arrays:
        array.values[...] = 0.0


def _nothing(*arrays: ndarray) -> None:
    return None


def _hang(*arrays: ndarray) -> None:
    time.sleep(3600)


def _die(*arrays: ndarray) -> None:
    os._exit(7)


def _refuse(*arrays: ndarray) -> None:
    raise GpuError("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested for launch")


def _illegal(*arrays: ndarray) -> None:
    gpu.broken = True


KERNELS = {
    "matmul": _matmul,
    "copy": _copy,
    "scribble": _scribble,
    "nothing": _nothing,
    "hang": _hang,
    "die": _die,
    "refuse": _refuse,
    "illegal": _illegal,
}


class Function:
    num_regs = 32

    def __init__(self, does: str, seconds: float) -> None:
        self._does = KERNELS[does]
        self._seconds = seconds

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        assert len(grid) == len(block) == 3
        if gpu.recorded is not None:
            gpu.recorded.append(partial(self._run, args))
        else:
            self._run(args)

    def _run(self, args: Any) -> None:
        _check()
        time.sleep(float(os.environ.get("FAKE_GPU_SLEEP", "0")))
        self._does(*args)
        gpu.seconds += self._seconds


class RawModule:
    """Of real machine code, whose kernels do nothing here, it knows that it has every kernel."""

    def __init__(self, *, path: str) -> None:
        code = Path(path).read_bytes()
        self._kernels = None if code.startswith(b"\x7fELF") else json.loads(code)

    def get_function(self, name: str) -> Function:
        if self._kernels is None:
            return Function("nothing", 1e-6)
        return Function(*self._kernels[name])


class _Stream:
    def __init__(self, non_blocking: bool) -> None:
        assert non_blocking

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def synchronize(self) -> None:
        _check()

    def begin_capture(self) -> None:
        if os.environ.get("FAKE_GPU_GRAPHS") == "no":
            raise GpuError("cudaErrorNotSupported")
        gpu.recorded = []

    def end_capture(self) -> SimpleNamespace:
        calls, gpu.recorded = gpu.recorded, None
        return SimpleNamespace(launch=lambda stream: [call() for call in calls])


class _Event:
    def record(self, stream: _Stream) -> None:
        self.seconds = gpu.seconds

    def synchronize(self) -> None:
        _check()


class _Device:
    def __init__(self, number: int) -> None:
        self.id = number
        self.compute_capability = os.environ.get("FAKE_GPU_ARCH", "90")
        if self.compute_capability == "none":
            raise GpuError("cudaErrorNoDevice: no CUDA-capable device is detected")
        self.attributes = {"MultiProcessorCount": 132, "ClockRate": 1980000}
        self.mem_info = (1, 2)

    def synchronize(self) -> None:
        _check()


cuda = SimpleNamespace(
    Device=_Device,
    Stream=_Stream,
    Event=_Event,
    get_elapsed_time=lambda start, end: 1e3 * (end.seconds - start.seconds),
    runtime=SimpleNamespace(
        getDeviceProperties=lambda number: {"name": b"Fake GPU"}, driverGetVersion=lambda: 13000
    ),
)
