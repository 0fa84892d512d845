"""The process that loads, checks and times programs. It can hang or die with one: `loop` watches it.

A program is timed with its data where they are: its calls follow each other and the L2 cache is not emptied
between them, as tuners time by default. They are replayed as one CUDA graph, so that Python's launches do not
count.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, pstdev
from typing import Any

import numpy as np

from .errors import RunError
from .records import read_manifest
from .reference import difference, make_input, reference

WARM_S = 0.03  # calls before the first repeat, for the clock to rise
REPEAT_S = 0.002  # a repeat calls a program for about so long …
MOST_CALLS = 200  # … but not more often
REPEATS = 20
LONGEST_S = 0.5  # all repeats of a slow program together

_SMI = ("driver_version", "clocks.max.sm", "clocks.max.mem", "clocks.sm")


def serve(connection: Connection, folder: Path) -> None:
    """Says what GPU there is, or why not; then answers `("task", number)` and `("program", number)` until the
    other end closes. A program's task comes before it."""
    # Whoever interrupts the run means the process that watches, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        bench = Bench(folder)
        connection.send({"device": bench.describe()})
    except Exception as error:  # whatever CuPy raises
        connection.send({"error": _line(error)})
        return
    while True:
        try:
            what, number = connection.recv()
        except EOFError:
            return
        connection.send(bench.task(number) if what == "task" else bench.program(number))


class Bench:
    """Programs of a prepared folder on this machine's first GPU."""

    def __init__(self, folder: Path) -> None:
        import cupy  # here, since the process that watches must not touch the GPU

        self._cupy = cupy
        self._folder = folder
        self._manifest = read_manifest(folder)
        self._device = cupy.cuda.Device(0)
        _check_arch(self._manifest["arch"], self._device.compute_capability)
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._tasks: dict[int, tuple[list[np.ndarray], list[Any], np.ndarray]] = {}

    def describe(self) -> dict[str, Any]:
        """The GPU; what cannot be found out is None."""
        runtime, attributes = self._cupy.cuda.runtime, self._device.attributes
        return {
            "name": runtime.getDeviceProperties(self._device.id)["name"].decode(),
            "arch": f"sm_{self._device.compute_capability}",
            "multiprocessors": attributes.get("MultiProcessorCount"),
            "clock_khz": attributes.get("ClockRate"),
            "memory_clock_khz": attributes.get("MemoryClockRate"),
            "l2_bytes": attributes.get("L2CacheSize"),
            "memory_bytes": self._device.mem_info[1],
            "cuda_of_driver": runtime.driverGetVersion(),
            "cupy": self._cupy.__version__,
            "numpy": np.__version__,
            **_smi(),
        }

    def task(self, number: int) -> dict[str, Any]:
        """Makes the task's inputs and computes what is right."""
        task = self._manifest["tasks"][number]
        host = [
            _poison(argument)
            if argument["seed"] is None
            else make_input(argument["shape"], argument["dtype"], argument["seed"])
            for argument in task["arguments"]
        ]
        inputs = [array for i, array in enumerate(host) if task["arguments"][i]["seed"] is not None]
        try:
            expected = reference(task["operator"], task["sizes"], inputs)
            device = [self._cupy.empty(array.shape, array.dtype) for array in host]
        except Exception as error:  # a task that cannot be checked is not run
            return {"error": _line(error)}
        self._tasks[number] = host, device, expected
        return {}

    def program(self, number: int) -> dict[str, Any]:
        """Checks and times one program.

        samples_s: seconds of a call, one figure a repeat; median_s, spread_s: their median and standard
        deviation; timed: `graph`, or `launches` where CUDA graphs do not work; registers: of a thread of each
        kernel, as loaded; failure: None, `run` or `wrong`, and then `message` says more; run_s: seconds that
        all of it took; broken: this process must end, since the failure will stay."""
        start = time.perf_counter()
        try:
            with self._stream:
                answer = self._check_and_time(self._manifest["programs"][number])
        except Exception as error:  # whatever CuPy raises
            answer = {"failure": "run", "message": _line(error), "broken": self._broken()}
        return {**answer, "run_s": time.perf_counter() - start}

    def _check_and_time(self, program: dict[str, Any]) -> dict[str, Any]:
        host, arrays, expected = self._tasks[program["task"]]
        spare = [_poison(workspace) for workspace in program["workspaces"]]
        buffers = [*arrays, *(self._cupy.empty(array.shape, array.dtype) for array in spare)]
        # Everything anew: an earlier program may have written where it should not.
        for buffer, values in zip(buffers, [*host, *spare], strict=True):
            buffer.set(values)
        # Copies are on another stream than the programs.
        self._device.synchronize()
        kernels = self._load(program, buffers)

        def call() -> None:
            for function, launch in kernels:
                function(*launch[:3], shared_mem=launch[3])

        call()
        self._stream.synchronize()
        task = self._manifest["tasks"][program["task"]]
        known = {"registers": [int(function.num_regs) for function, _ in kernels]}
        text = difference(expected, arrays[task["output"]].get(), task["tolerance"])
        if text is not None:
            return {"failure": "wrong", "message": text, **known}
        samples, timed = self._time(call)
        if min(samples) <= 0:
            return {"failure": "run", "message": "the GPU's clock says that it took no time", **known}
        spread = pstdev(samples) if len(samples) > 1 else None
        found = {"samples_s": samples, "median_s": median(samples), "spread_s": spread, "timed": timed}
        return {"failure": None, "message": "", **found, **known}

    def _load(self, program: dict[str, Any], buffers: list[Any]) -> list[tuple[Any, tuple[Any, ...]]]:
        """Each kernel's function and what it is called with: grid, block, arguments, dynamic shared bytes."""
        module = self._cupy.RawModule(path=str(self._folder / program["cubin"]))
        kernels = []
        for kernel in program["kernels"]:
            function = module.get_function(kernel["name"])
            dynamic = kernel["dynamic_shared_bytes"]
            if dynamic:
                function.max_dynamic_shared_size_bytes = dynamic
            arguments = tuple(buffers[i] for i in kernel["arguments"])
            kernels.append((function, (tuple(kernel["grid"]), tuple(kernel["block"]), arguments, dynamic)))
        return kernels

    def _time(self, call: Callable[[], None]) -> tuple[list[float], str]:
        """Seconds of a call, one figure a repeat, and how the calls were made."""
        first = self._elapsed(call)
        calls = max(1, min(MOST_CALLS, ceil(REPEAT_S / max(first, 1e-9))))
        repeat, timed = self._repeated(call, calls)
        start = time.perf_counter()
        while time.perf_counter() - start < WARM_S:
            repeat()
            self._stream.synchronize()
        repeats = max(1, min(REPEATS, int(LONGEST_S / max(calls * first, 1e-9))))
        return [self._elapsed(repeat) / calls for _ in range(repeats)], timed

    def _repeated(self, call: Callable[[], None], calls: int) -> tuple[Callable[[], None], str]:
        """So many calls as one."""

        def launch() -> None:
            for _ in range(calls):
                call()

        try:
            self._stream.begin_capture()
            try:
                launch()
            finally:
                graph = self._stream.end_capture()
            graph.launch(self._stream)
            self._stream.synchronize()
        except Exception:  # of a CuPy or a driver that cannot; a fault of the program shows again below
            return launch, "launches"
        return lambda: graph.launch(self._stream), "graph"

    def _elapsed(self, call: Callable[[], None]) -> float:
        """Seconds on the GPU."""
        start, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        start.record(self._stream)
        call()
        end.record(self._stream)
        end.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(start, end)) / 1e3

    def _broken(self) -> bool:
        """Whether CUDA refuses all further work of this process, as after an illegal address."""
        try:
            self._device.synchronize()
        except Exception:  # whatever CuPy raises
            return True
        return False


def _poison(argument: dict[str, Any]) -> np.ndarray:
    """What a buffer holds that the program must write: no number that could pass for a result."""
    dtype = np.dtype(argument["dtype"])
    return np.full(argument["shape"], np.nan if dtype.kind == "f" else np.iinfo(dtype).max, dtype)


def _check_arch(arch: str, capability: str) -> None:
    """Machine code runs on later GPUs of its own generation; one with a suffix (sm_90a) on that GPU alone."""
    wanted = arch.removeprefix("sm_")
    number = wanted.rstrip("abcdefghijklmnopqrstuvwxyz")
    same = number[:-1] == capability[:-1]
    if not (number == capability if number != wanted else same and number <= capability):
        raise RunError(
            f"the programs are for {arch} and this GPU is sm_{capability}: "
            f"prepare again with --arch sm_{capability}"
        )


def _smi() -> dict[str, str | None]:
    """What only nvidia-smi knows: the driver's version and clocks in MHz; None each where it is missing."""
    command = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(_SMI)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return dict.fromkeys(_SMI)
    values = [value.strip() for value in done.stdout.strip().split(",")]
    return dict(zip(_SMI, values, strict=True)) if len(values) == len(_SMI) else dict.fromkeys(_SMI)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
