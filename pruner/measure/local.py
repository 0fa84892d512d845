"""Measures on this machine: on its CPU, or for a cuda target on its first GPU."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from tvm.target import Target

from pruner.errors import DeviceError
from pruner.measure import gpu, nvcc, runtime
from pruner.measure.builder import BuildingMeasurer
from pruner.measure.clock import stage
from pruner.measure.measurement import Measurement
from pruner.measure.process import Reply, Worker
from pruner.measure.timing import TimingRule
from pruner.measure.trial import MeasureTrial
from pruner.search.candidate import Candidate
from pruner.settings import positive
from pruner.target import machine
from pruner.workload import Task

# The untuned program may be far slower than anything a space proposes.
_UNTUNED_PATIENCE = 10.0

# What a candidate may take to compile.
_LLVM_TIMEOUT_S = 10.0
_NVCC_TIMEOUT_S = 60.0


def check_runs_here(target: Target) -> None:
    """Raises DeviceError for a target whose programs neither this machine's CPU nor its GPU can run."""
    if target.kind.name == "cuda":
        gpu.check(target)
        nvcc.check_arch(str(target.attrs["arch"]))
        return
    if target.kind.name != "llvm":
        raise DeviceError(
            f"target kind {target.kind.name} cannot be measured here: leave target out for this machine's "
            'CPU, or give an llvm one such as {"kind": "llvm", "num-cores": 2}, or a cuda one.'
        )
    if (there := machine(target)) != (here := machine()):
        raise DeviceError(
            f"code for {there} (target mtriple {target.attrs['mtriple']}) cannot run on this machine, whose "
            f"CPU is {here}: choose another device, or leave target out."
        )


class LocalMeasurer(BuildingMeasurer):
    """Builds in parallel, then times one program after the other, in workers that live for the whole run.

    Args:
        task: the workload.
        threads: threads of TVM's runtime, for candidates and the untuned program alike.
        workers: processes that build; by default as many as there are cores, at most 8.
        build_timeout_s, run_timeout_s: after these seconds a worker is killed and its candidate has failed;
            the untuned program is given ten times as long. Building takes 10 s at most by default, and 60 s
            with nvcc.
        recycle_after: builds after which a worker is replaced.
        memory_bytes: a worker that holds more between two batches is replaced; by default its share of
            half the machine's memory.
        slower, precision, longest_s: how long to time, see TimingRule.
        confirm_rounds, confirm_s: finalists take turns so many times, each turn so many seconds.
    """

    def __init__(
        self,
        *,
        task: Task,
        threads: int,
        workers: int | None = None,
        build_timeout_s: float | None = None,
        run_timeout_s: float = 10.0,
        recycle_after: int = 200,
        memory_bytes: float | None = None,
        slower: float = 1.5,
        precision: float = 0.005,
        longest_s: float = 0.3,
        confirm_rounds: int = 7,
        confirm_s: float = 0.1,
    ) -> None:
        check_runs_here(task.target)
        self._on_gpu = task.target.kind.name == "cuda"
        positive(run_timeout_s=run_timeout_s)
        default_s = _NVCC_TIMEOUT_S if self._on_gpu else _LLVM_TIMEOUT_S
        super().__init__(
            runtime.untuned(task.mod, task.target),
            task.target,
            threads=threads,
            workers=workers,
            build_timeout_s=build_timeout_s if build_timeout_s is not None else default_s,
            recycle_after=recycle_after,
            memory_bytes=memory_bytes,
            rule=TimingRule(slower=slower, precision=precision, longest_s=longest_s),
        )
        self._run_timeout_s = run_timeout_s
        self._confirm_rounds = confirm_rounds
        self._confirm_s = confirm_s
        self._best_s: float | None = None
        self._baseline: Measurement | None = None
        self._incomparable = ""
        self._running: Worker | None = None  # the worker whose program ran last

    @classmethod
    def check_target(cls, target: Target) -> None:
        check_runs_here(target)

    @property
    def runtime_threads(self) -> int:
        """As a worker reports it; waits until one has started."""
        with stage("build"):
            threads = self._pool.any().threads
        assert threads is not None  # `any` returns ready workers
        return threads

    def _measure(self, candidates: Sequence[Candidate], trials: list[MeasureTrial]) -> None:
        trials += [self._materialise(candidate) for candidate in candidates]
        self._build(trials, lambda trial: ("build", trial.key, trial.text))
        with stage("build"):
            self._pool.settle()
        # One worker's programs after the other's, so that little time goes into waiting for quiet.
        for trial in sorted(trials, key=lambda trial: self._pool.position(trial.owner)):
            self._time(trial, self._run_timeout_s)

    def baseline(self) -> Measurement:
        """The untuned program's timing; after `confirm`, the one taken in turn with the finalists."""
        if self._baseline is None:
            trial = self._trial(None, self._untuned)
            with stage("build"):
                self._pool.settle()
            self._time(trial, _UNTUNED_PATIENCE * self._run_timeout_s)
            self._end_batch()
            self._baseline = trial.measurement()
        return self._baseline

    def check(self, candidate: Candidate) -> Measurement:
        """Compares one candidate's output with the untuned program's, without timing: the measurement has
        no latency; it has a failure, `wrong` where the numbers differ."""
        trial = self._materialise(candidate)
        self._check(trial)
        self._end_batch()
        return trial.measurement()

    def confirm(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        """As the contract says, all in one worker. Where the untuned program itself cannot be run, nothing
        is compared, and the message says so."""
        with stage("build"):
            self._pool.settle()
        trials = [self._materialise(candidate) for candidate in candidates]
        for trial in trials:
            self._check(trial)
        untuned = self._trial(None, self._untuned)
        if self._baseline is not None and self._baseline.failure is not None:
            untuned.failure, untuned.message = self._baseline.failure, self._baseline.message
        everyone = [untuned, *trials]
        for turn in range(self._confirm_rounds):
            first = turn % len(everyone)
            for trial in everyone[first:] + everyone[:first]:
                # One long call tells enough about a program that takes seconds.
                if trial.failure is None and (not trial.samples or trial.samples[0] < 1.0):
                    self._sample(trial)
        self._end_batch()
        if untuned.failure is None:
            self._baseline = untuned.measurement()
        return [trial.measurement() for trial in trials]

    def _home(self, trial: MeasureTrial) -> Worker | None:
        """The worker that holds the program, built again if that worker is gone; None when that fails."""
        if trial.failure is None and (trial.owner is None or not trial.owner.running):
            with stage("build"):
                worker = self._pool.any()
                patience = 1.0 if trial.candidate is not None else _UNTUNED_PATIENCE
                reply = self._pool.ask(
                    worker, "build", trial.key, trial.text, timeout_s=patience * self._build_timeout_s
                )
                self._built(trial, reply, worker)
        return trial.owner if trial.failure is None else None

    def _time(self, trial: MeasureTrial, timeout_s: float) -> None:
        worker = self._home(trial)
        if worker is None:
            return
        with stage("run"):
            self._take_turn(worker)
            reply = self._run(trial, worker, "time", self._best_s, timeout_s=timeout_s)
        if reply.failure is not None:
            return
        trial.samples = reply.value
        self._best_s = min(median(trial.samples), self._best_s or float("inf"))

    def _take_turn(self, worker: Worker) -> None:
        """Waits until the worker that ran a program before has left the cores."""
        if self._running is not None and self._running is not worker and self._running.running:
            self._pool.ask(self._running, "quieten", timeout_s=self._run_timeout_s)
        self._running = worker

    def _sample(self, trial: MeasureTrial) -> None:
        worker = self._home(trial)
        if worker is None:
            return
        patience = 1.0 if trial.candidate is not None else _UNTUNED_PATIENCE
        with stage("run"):
            self._take_turn(worker)
            reply = self._run(
                trial, worker, "sample", self._confirm_s, timeout_s=patience * self._run_timeout_s
            )
        if reply.failure is None:
            trial.samples += reply.value

    def _check(self, trial: MeasureTrial) -> None:
        worker = self._home(trial)
        if worker is None:
            return
        if self._incomparable:
            trial.message = self._incomparable
            return
        with stage("run"):
            if not worker.has_reference:
                patience = _UNTUNED_PATIENCE * (self._build_timeout_s + self._run_timeout_s)
                reply = self._ask(worker, "reference", timeout_s=patience)
                if reply.failure is not None:
                    # Not tried again for the next one: it may have taken minutes.
                    self._incomparable = f"output not compared: the untuned program failed ({reply.message})"
                    trial.message = self._incomparable
                    return
                worker.has_reference = True
            # A program with re-arranged weights is built once more for this.
            reply = self._run(trial, worker, "check", timeout_s=self._build_timeout_s + self._run_timeout_s)
        if reply.value is not None:
            trial.failure, trial.message = "wrong", reply.value
        trial.compared = trial.failure is None

    def _run(
        self, trial: MeasureTrial, worker: Worker, name: str, *arguments: Any, timeout_s: float
    ) -> Reply:
        """A request that runs the trial's program."""
        reply = self._ask(worker, name, trial.key, *arguments, timeout_s=timeout_s)
        trial.run_s += reply.seconds
        if reply.failure is not None:
            trial.fail("run", reply)
        return reply

    def _ask(self, worker: Worker, name: str, *arguments: Any, timeout_s: float) -> Reply:
        """A request that runs a program. After a fault no program runs on a GPU in the same process."""
        reply = self._pool.ask(worker, name, *arguments, timeout_s=timeout_s)
        if reply.failure == "error" and self._on_gpu:
            worker.kill()
        return reply

    def _end_batch(self) -> None:
        """Frees the programs too."""
        with stage("run"):
            for worker in self._pool.workers:
                if worker.ready:
                    self._pool.ask(worker, "forget", timeout_s=self._run_timeout_s)
        super()._end_batch()
