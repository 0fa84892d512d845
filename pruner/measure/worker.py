"""A measuring worker: a process that builds, times and checks programs of one task until its pipe closes.

Requests are tuples (name, *arguments) of plain values, replies (kind, value, seconds) with kind `ok` or
`error`. The first reply, unasked, says that TVM is loaded and how many threads its runtime uses.
"""

from __future__ import annotations

import os
import queue
import signal
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tvm
from numpy.typing import NDArray
from tvm.ir import IRModule, load_json

from pruner.child import kill_family
from pruner.files import remove_folder
from pruner.measure import compare, program, timing
from pruner.measure.build import Program, build
from pruner.measure.cause import root_cause
from pruner.measure.inputs import Inputs
from pruner.measure.nvcc import Resources, compile_cuda
from pruner.measure.runtime import Runtime, runtime_of
from pruner.measure.timing import TimingRule

Outputs = list[NDArray[Any] | None]


class Bench:
    """The task on this worker: its arrays, the compiled programs by number, the untuned program's output.

    Args:
        mod, target: TVM's JSON of the untuned program and of the target.
        rule: how long to time.
        runtime: of the device that programs run on; by default the target's.
    """

    def __init__(self, mod: str, target: str, rule: TimingRule, runtime: Runtime | None = None) -> None:
        self._mod: IRModule = load_json(mod)
        self._target = load_json(target)
        self._rule = rule
        self._runtime = runtime or runtime_of(self._target)
        self._inputs = Inputs(program.arguments_of(self._mod), self._runtime.device)
        self._programs: dict[int, Program] = {}
        self._written = program.written_arguments(self._mod[program.ENTRY])
        self._references: dict[bool, Outputs] = {}

    def start(self) -> None:
        """Prepares the process for the first program."""
        self._runtime.start()

    def build(self, key: int, mod: str) -> None:
        """Compiles a module and keeps it as number `key`."""
        self._programs[key] = build(load_json(mod), self._target)

    def compile(self, mod: str) -> Resources:
        """Compiles a module with nvcc and says what it needs; nothing is kept."""
        return compile_cuda(load_json(mod), self._target).resources

    def time(self, key: int, best_s: float | None) -> list[float]:
        """Seconds of a call, one figure per repeat, adaptively."""
        call, sample = self._callable(key)
        with self._runtime.apart():
            return timing.time_adaptively(call, sample, best_s, self._rule)

    def sample(self, key: int, seconds: float) -> list[float]:
        """Seconds of a call, one figure per repeat, for about `seconds`."""
        call, sample = self._callable(key)
        with self._runtime.apart():
            return timing.sample_for(call, sample, seconds, self._rule)

    def reference(self) -> None:
        """Runs the untuned program for its output. Where random signs give no number (a square root, a
        logarithm), positive data are compared too."""
        untuned = build(self._mod, self._target, rewrite_layouts=False)
        self._references = {False: self._outputs(untuned, positive=False)}
        if not all(_finite(values) for values in self._references[False]):
            self._references[True] = self._outputs(untuned, positive=True)

    def check(self, key: int) -> str | None:
        """None when the program's output is the untuned program's, else what differs. `reference` first."""
        candidate = self._programs[key]
        if candidate.rewritten:
            candidate = build(candidate.source, self._target, rewrite_layouts=False)
        func = self._mod[program.ENTRY]
        tolerance = compare.relative_tolerance(program.written_dtypes(func), program.reduction_length(func))
        for positive, expected in self._references.items():
            outputs = self._outputs(candidate, positive=positive)
            text = compare.first_difference(expected, outputs, tolerance)
            if text is not None:
                return text
        return None

    def quieten(self) -> None:
        """Returns when this process has left the device, for another worker's program to be timed."""
        self._runtime.quieten()

    def forget(self) -> None:
        """Drops every compiled program."""
        self._programs.clear()

    def _callable(self, key: int) -> tuple[Any, timing.Sampler]:
        candidate = self._programs[key]
        arguments = self._inputs.call_arguments(candidate.arguments)
        self._inputs.reset(candidate.arguments, only=self._written)

        def sample(number: int, repeat: int) -> list[float]:
            evaluator = candidate.module.time_evaluator(
                program.ENTRY, self._runtime.device, number=number, repeat=repeat
            )
            return [float(value) for value in evaluator(*arguments).results]

        return self._runtime.finished(candidate.function, arguments), sample

    def _outputs(self, candidate: Program, *, positive: bool) -> Outputs:
        """What all arguments hold after one call: an input that was overwritten is a difference too."""
        arguments = self._inputs.call_arguments(candidate.arguments)
        self._inputs.reset(candidate.arguments, positive=positive)
        candidate.function(*arguments)
        values = self._inputs.values(candidate.arguments)
        self._inputs.reset(candidate.arguments)
        return values


def serve(connection: Connection, folder: str) -> None:
    """Answers requests one by one; temporary files are in `folder`. A second thread reads the pipe, so that
    the process and the compilers it started end when its parent does, even in the middle of a compilation
    (TVM releases the interpreter lock)."""
    requests: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()

    def read() -> None:
        try:
            while True:
                requests.put(connection.recv())
        except (EOFError, OSError):
            for compiler in psutil.Process().children():
                kill_family(compiler.pid)
            remove_folder(folder)
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    _, mod, target, rule = requests.get()
    bench = Bench(mod, target, TimingRule(**rule))
    bench.start()
    connection.send(("ok", int(tvm.runtime.num_threads()), 0.0))
    while True:
        name, *arguments = requests.get()
        start = time.perf_counter()
        try:
            kind, value = "ok", getattr(bench, name)(*arguments)
        except Exception as error:
            kind, value = "error", root_cause(str(error) or repr(error))
        with suppress(OSError):  # the parent is gone: the other thread tidies up and ends the process
            connection.send((kind, value, time.perf_counter() - start))


def _finite(values: NDArray[Any] | None) -> bool:
    return values is None or values.dtype.kind in "iub" or bool(np.isfinite(values.astype(np.float64)).all())


def main(descriptor: str, folder: str) -> None:
    """Runs a worker on the pipe with that descriptor; Ctrl-C is the parent's business."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):  # a program that takes all memory ends this process, not the tuner's
        Path("/proc/self/oom_score_adj").write_text("1000")
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    serve(Connection(int(descriptor)), folder)
