"""Measures on this machine's CPU."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

import psutil
from tvm.ir import save_json
from tvm.target import Target

from pruner.cores import usable_cpus
from pruner.errors import DeviceError, PrunerError
from pruner.measure.cause import root_cause
from pruner.measure.clock import stage
from pruner.measure.measurement import MeasureInterrupted, Measurement, Measurer
from pruner.measure.pool import Pool
from pruner.measure.process import Reply, Worker, WorkerSetup
from pruner.measure.timing import TimingRule, summary
from pruner.search.candidate import Candidate
from pruner.settings import positive, whole
from pruner.workload import Task

# The untuned program may be far slower than anything a space proposes.
_UNTUNED_PATIENCE = 10.0

# One architecture, several names.
_SAME = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


def check_runs_here(target: Target) -> None:
    """Raises DeviceError for a target whose programs this machine's CPU cannot run."""
    here = platform.machine().lower()
    there = str(target.attrs.get("mtriple") or here).partition("-")[0].lower()
    if target.kind.name != "llvm":
        raise DeviceError(
            f"a {target.kind.name} target cannot be measured on this machine's CPU, the only device there is "
            'yet: leave target out, or give an llvm one such as {"kind": "llvm", "num-cores": 2}.'
        )
    if _SAME.get(there, there) != _SAME.get(here, here):
        raise DeviceError(
            f"code for {there} (target mtriple {target.attrs['mtriple']}) cannot run on this machine, whose "
            f"CPU is {here}: choose another device, or leave target out."
        )


@dataclass(eq=False)
class _Trial:
    """A program on its way: its module as JSON, the worker that holds it compiled, what went wrong."""

    key: int
    candidate: Candidate | None
    text: str = ""
    owner: Worker | None = None
    build_s: float = 0.0
    run_s: float = 0.0
    samples: list[float] = field(default_factory=list)
    failure: str | None = None
    message: str = ""
    compared: bool = False

    def fail(self, kind: str, reply: Reply) -> None:
        """Takes a reply's failure: `timeout` where the worker had to be killed, else `kind`."""
        self.failure = "timeout" if reply.failure == "timeout" else kind
        self.message = reply.message

    def measurement(self) -> Measurement:
        """What became of it."""
        latency, spread = (None, None) if self.failure or not self.samples else summary(self.samples)
        return Measurement(
            self.candidate,
            latency,
            spread,
            self.build_s,
            self.run_s,
            self.failure,
            self.message,
            self.compared,
        )


class LocalMeasurer(Measurer):
    """Builds in parallel, then times one program after the other, in workers that live for the whole run.

    Args:
        task: the workload.
        threads: threads of TVM's runtime, for candidates and the untuned program alike.
        workers: processes that build; by default as many as there are cores, at most 8.
        build_timeout_s, run_timeout_s: after these seconds a worker is killed and its candidate has failed;
            the untuned program is given ten times as long.
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
        build_timeout_s: float = 10.0,
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
        if workers is not None:
            whole(1, workers=workers)
        whole(1, recycle_after=recycle_after)
        positive(build_timeout_s=build_timeout_s, run_timeout_s=run_timeout_s)
        size = workers if workers is not None else min(8, len(usable_cpus()))
        rule = TimingRule(slower=slower, precision=precision, longest_s=longest_s)
        self._build_timeout_s = build_timeout_s
        self._run_timeout_s = run_timeout_s
        self._recycle_after = recycle_after
        self._memory_bytes = memory_bytes or psutil.virtual_memory().total / 2 / size
        self._confirm_rounds = confirm_rounds
        self._confirm_s = confirm_s
        self._best_s: float | None = None
        self._baseline: Measurement | None = None
        self._incomparable = ""
        self._running: Worker | None = None  # the worker whose program ran last
        self._untuned = save_json(task.mod)
        self._trials = 0
        self._pool = Pool(size, WorkerSetup(self._untuned, save_json(task.target), threads, rule))

    @property
    def runtime_threads(self) -> int:
        """As a worker reports it; waits until one has started."""
        with stage("build"):
            threads = self._pool.any().threads
        assert threads is not None  # `any` returns ready workers
        return threads

    def measure(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        trials: list[_Trial] = []
        try:
            self._measure(candidates, trials)
            self._end_batch()
        except KeyboardInterrupt:
            finished = [trial for trial in trials if trial.samples or trial.failure]
            raise MeasureInterrupted([trial.measurement() for trial in finished]) from None
        return [trial.measurement() for trial in trials]

    def _measure(self, candidates: Sequence[Candidate], trials: list[_Trial]) -> None:
        trials += [self._materialise(candidate) for candidate in candidates]
        with stage("build"):
            sound = [trial for trial in trials if trial.failure is None]
            replies = self._pool.run(
                [("build", trial.key, trial.text) for trial in sound], timeout_s=self._build_timeout_s
            )
            for trial, (reply, worker) in zip(sound, replies, strict=True):
                self._built(trial, reply, worker)
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

    def close(self) -> None:
        self._pool.kill()

    def _trial(self, candidate: Candidate | None, text: str = "") -> _Trial:
        self._trials += 1
        return _Trial(self._trials, candidate, text)

    def _materialise(self, candidate: Candidate) -> _Trial:
        trial = self._trial(candidate)
        with stage("materialise"):
            try:
                trial.text = save_json(candidate.materialise().mod)
            except PrunerError as error:
                trial.failure, trial.message = "build", root_cause(str(error))
        return trial

    def _built(self, trial: _Trial, reply: Reply, worker: Worker | None) -> None:
        trial.build_s += reply.seconds
        if reply.failure is None:
            trial.owner = worker
        else:
            trial.fail("build", reply)

    def _home(self, trial: _Trial) -> Worker | None:
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

    def _time(self, trial: _Trial, timeout_s: float) -> None:
        worker = self._home(trial)
        if worker is None:
            return
        with stage("run"):
            self._take_turn(worker)
            reply = self._pool.ask(worker, "time", trial.key, self._best_s, timeout_s=timeout_s)
        trial.run_s += reply.seconds
        if reply.failure is not None:
            trial.fail("run", reply)
            return
        trial.samples = reply.value
        self._best_s = min(median(trial.samples), self._best_s or float("inf"))

    def _take_turn(self, worker: Worker) -> None:
        """Waits until the worker that ran a program before has left the cores."""
        if self._running is not None and self._running is not worker and self._running.running:
            self._pool.ask(self._running, "quieten", timeout_s=self._run_timeout_s)
        self._running = worker

    def _sample(self, trial: _Trial) -> None:
        worker = self._home(trial)
        if worker is None:
            return
        patience = 1.0 if trial.candidate is not None else _UNTUNED_PATIENCE
        with stage("run"):
            self._take_turn(worker)
            reply = self._pool.ask(
                worker, "sample", trial.key, self._confirm_s, timeout_s=patience * self._run_timeout_s
            )
        trial.run_s += reply.seconds
        if reply.failure is None:
            trial.samples += reply.value
        else:
            trial.fail("run", reply)

    def _check(self, trial: _Trial) -> None:
        worker = self._home(trial)
        if worker is None:
            return
        if self._incomparable:
            trial.message = self._incomparable
            return
        with stage("run"):
            if not worker.has_reference:
                patience = _UNTUNED_PATIENCE * (self._build_timeout_s + self._run_timeout_s)
                reply = self._pool.ask(worker, "reference", timeout_s=patience)
                if reply.failure is not None:
                    # Not tried again for the next one: it may have taken minutes.
                    self._incomparable = f"output not compared: the untuned program failed ({reply.message})"
                    trial.message = self._incomparable
                    return
                worker.has_reference = True
            # A program with re-arranged weights is built once more for this.
            reply = self._pool.ask(
                worker, "check", trial.key, timeout_s=self._build_timeout_s + self._run_timeout_s
            )
        trial.run_s += reply.seconds
        if reply.failure is not None:
            trial.fail("run", reply)
        elif reply.value is not None:
            trial.failure, trial.message = "wrong", reply.value
        else:
            trial.compared = True

    def _end_batch(self) -> None:
        """Frees the programs, and replaces workers while the caller goes on with other things."""
        with stage("run"):
            for worker in self._pool.workers:
                if worker.ready:
                    self._pool.ask(worker, "forget", timeout_s=self._run_timeout_s)
            self._pool.recycle(self._recycle_after, self._memory_bytes)
