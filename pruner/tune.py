"""The tuning loop: propose, measure, learn; then confirm the best program and leave the run's files."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from tvm.ir import IRModule
from tvm.s_tir.meta_schedule.utils import shash2hex
from tvm.target import Target
from tvm.tirx import PrimFunc

from pruner import report
from pruner.adapt.learner import Learner
from pruner.adapt.rule import AdaptationRule, Scratch
from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel
from pruner.analyzer.roofline import RooflineDraft
from pruner.config import instantiate
from pruner.cores import usable_cpus
from pruner.costmodel.verifier import Verifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.display import Display, RoundReport, SilentDisplay, make_display
from pruner.errors import ConfigError, PrunerError, UntunableError
from pruner.interrupt import Stop, stop_on_interrupt
from pruner.measure.clock import Clock, stage
from pruner.measure.local import LocalMeasurer
from pruner.measure.measurement import MeasureInterrupted, Measurement, Measurer
from pruner.parts import Budget, Parts
from pruner.records.database import plain, trace_json, write_database
from pruner.records.journal import (
    Baseline,
    Confirmation,
    End,
    Header,
    Journal,
    Round,
    Trial,
    check_free,
)
from pruner.records.versions import versions
from pruner.result import TuneResult
from pruner.search.candidate import Candidate
from pruner.search.latent import LatentSearch
from pruner.search.space import Space
from pruner.search.strategy import SearchStrategy
from pruner.settings import whole
from pruner.workload import Task, load_task, make_task, resolve_target

# So many of the fastest trials are timed again and compared with the untuned program at once.
FINALISTS = 3

# Why a run ends before its trials are spent, in words.
_ENDS = {
    "exhausted": "The design space is exhausted: no further program can be proposed.",
    "minutes": "The time is up.",
}


def tune(
    mod: IRModule | PrimFunc,
    *,
    target: str | Mapping[str, object] | Target | None = None,
    trials: int = 64,
    batch: int = 10,
    seed: int = 0,
    minutes: float | None = None,
    device: Device | None = None,
    draft: DraftModel | None = None,
    verifier: Verifier | None = None,
    search: SearchStrategy | None = None,
    adapt: AdaptationRule | None = None,
    measurer: Measurer | None = None,
    work_dir: str | Path | None = None,
    display: Display | None = None,
    name: str = "main",
) -> TuneResult:
    """Tunes one tensor program.

    Args:
        mod: a PrimFunc, or a module with one.
        target: overrides the device's own.
        trials, batch, minutes: see Budget.
        device: by default the machine this runs on.
        draft, verifier, search, adapt, measurer: components; by default those of `pruner tune`.
        work_dir: a new folder for the run's files; by default outputs/DATE/TIME.
        display: what to show; by default nothing.

    Raises ConfigError for what cannot be used, UntunableError when there is nothing to tune.
    """
    clock = Clock()
    budget = Budget(trials, batch, minutes)
    whole(0, seed=seed)
    device = device or Device.auto()
    complete, notes = resolve_target(target or dict(device.target), device.cores)
    task = make_task(mod, complete, name)
    parts = Parts(
        device,
        draft or RooflineDraft(device=device),
        verifier or XGBVerifier(seed=seed),
        search or LatentSearch(),
        adapt or Scratch(),
    )
    folder = Path(work_dir or time.strftime("outputs/%Y-%m-%d/%H-%M-%S"))
    settings: dict[str, Any] = {"trials": trials, "batch": batch}
    settings |= {family: type(part).__name__ for family, part in vars(parts).items() if family != "device"}
    made = measurer or LocalMeasurer(task=task, threads=_threads(task, device))
    run_ = Run(task, parts, made, budget, seed, folder, settings, display or SilentDisplay(), clock)
    return run_.go([*notes, *_notes(task, device)])


def run(cfg: DictConfig) -> TuneResult:
    """`pruner tune`: a run as the settings say, shown on the terminal."""
    clock = Clock()
    device = Device.load(cfg.device.name)
    target, notes = resolve_target(cfg.target or dict(device.target), device.cores)
    task = load_task(cfg.workload, target)
    parts = Parts(
        device,
        instantiate(cfg.draft, device=device),
        instantiate(cfg.verifier, seed=cfg.seed),
        instantiate(cfg.search),
        instantiate(cfg.adapt),
    )
    display = make_display()
    shown: Any = OmegaConf.to_container(cfg)
    settings = {str(key): value for key, value in shown.items() if key not in ("work_dir", "workload")}
    budget = Budget(cfg.trials, cfg.batch, cfg.minutes)
    measurer = instantiate(cfg.measure, task=task, threads=_threads(task, device))
    run_ = Run(task, parts, measurer, budget, cfg.seed, Path(cfg.work_dir), settings, display, clock)
    return run_.go([*notes, *_notes(task, device)])


def _threads(task: Task, device: Device) -> int:
    """Threads a program is run with: as many as the target says the device has, and no more than there are
    here, since threads without a core of their own only wait for each other."""
    return min(_cores(task, device), len(usable_cpus()))


def _cores(task: Task, device: Device) -> int:
    return int(task.target.attrs.get("num-cores", device.cores))


def _notes(task: Task, device: Device) -> list[str]:
    """What the user should know about the device."""
    cores, threads = _cores(task, device), _threads(task, device)
    if threads == cores:
        return list(device.notes)
    return [
        *device.notes,
        f"the target has {cores} cores, of which {threads} can be used here: programs run with "
        f"TVM_NUM_THREADS={threads}",
    ]


class Run:
    """One run of the loop; `go` does it all."""

    def __init__(
        self,
        task: Task,
        parts: Parts,
        measurer: Measurer,
        budget: Budget,
        seed: int,
        work_dir: Path,
        settings: Mapping[str, Any],
        display: Display,
        clock: Clock,
    ) -> None:
        self.task = task
        self.parts = parts
        self.measurer = measurer
        self.budget = budget
        self.seed = seed
        self.work_dir = work_dir.absolute()  # the program may change its working directory
        self.settings = settings
        self.display = display
        self.clock = clock
        self.journal: Journal
        self.candidates: list[Candidate] = []
        self.counts: dict[str, int] = {}

    def go(self, notes: Sequence[str] = ()) -> TuneResult:
        """Tunes, confirms, reports. The measurer is closed and the display finished, whatever happens."""
        shown = {"device": self.parts.device.name, "trials": self.budget.trials, "batch": self.budget.batch}
        try:
            with self.clock.running():
                check_free(self.work_dir, self._header())
                self.display.start(self.task, {**shown, "work_dir": self.work_dir})
                for note in notes:
                    self.display.message(note)
                return self._go()
        finally:
            self.measurer.close()
            self.display.finish()

    def _go(self) -> TuneResult:
        space = self._space()
        correct: bool | None = None
        interrupted = False
        with stop_on_interrupt(self.display) as stop:
            try:
                reason = self._rounds(space, stop)
                if not self.candidates:
                    raise KeyboardInterrupt
                if reason in _ENDS:
                    self.display.message(_ENDS[reason])
                correct = self._confirm()
                self.journal.append(End(self._best_trial(), reason))
            except KeyboardInterrupt as interrupt:
                if not self.candidates and not isinstance(interrupt, MeasureInterrupted):
                    raise
                with stop.held():
                    if isinstance(interrupt, MeasureInterrupted):
                        self._record(interrupt.measurements)
                    interrupted = True
                    self.journal.append(End(self._best_trial(), "interrupted"))
            except Exception:
                with stop.held():
                    self._salvage()
                raise
            with stop.held():
                return self._report(correct, interrupted)

    def _salvage(self) -> None:
        """Something broke, a component of the user's own perhaps: what was measured becomes a result first.
        The error is told by the caller, and one of the disk would only be told twice."""
        if self.candidates:
            with suppress(PrunerError):
                self.journal.append(End(self._best_trial(), "error"))
                self._report(None, interrupted=True)

    def _space(self) -> Space:
        """The design space; when it is empty, the error says how fast the program is as it stands."""
        try:
            return Space.of(self.task)
        except UntunableError as error:
            raise self._untunable(str(error)) from error

    def _untunable(self, reason: str) -> UntunableError:
        untuned = self.measurer.baseline()
        latency = untuned.latency_s if untuned is not None else None
        return UntunableError(f"{reason} Its baseline latency is {report.latency(latency)}.")

    def _rounds(self, space: Space, stop: Stop) -> str:
        """Proposes and measures until something runs out; returns what."""
        parts = self.parts
        rng = np.random.default_rng(self.seed)
        session = parts.search.start(space, draft=parts.draft, verifier=parts.verifier, pool=None, rng=rng)
        learner = Learner(parts.verifier, parts.adapt, parts.device)
        task = learner.new_task()
        while not (reason := self._spent(stop)):
            left = self.budget.trials - len(self.candidates)
            batch = session.propose(min(self.budget.batch, left))
            if not batch and not self.candidates:
                raise self._untunable(
                    f"{self.task.name}: no candidate can be proposed, because TVM accepts none or the draft "
                    "model expects every one not to fit the device."
                )
            if not batch:
                return "exhausted"
            if not self.candidates:
                # The first draft is made while the workers start.
                self._open_journal()
            measurements = self.measurer.measure(batch)
            self.counts = {
                "explored": session.explored,
                "drafted": session.drafted,
                "verified": session.verified,
                "measured": len(self.candidates) + len(batch),
            }
            with stop.held():
                self._record(measurements)
            stop.check()
            with stage("fit"):
                session.observe(measurements)
            if parts.search.uses_verifier and not self._spent(stop):
                learner.observe(measurements, task)
        return reason

    def _spent(self, stop: Stop) -> str:
        """Why the run is over, or nothing."""
        if stop.is_set():
            return "interrupted"
        if len(self.candidates) >= self.budget.trials:
            return "budget"
        if self.budget.minutes is not None and self.clock.elapsed() >= 60 * self.budget.minutes:
            return "minutes"
        return ""

    def _header(self, runtime_threads: int = 0) -> Header:
        return Header(
            workload=self.task.name,
            workload_hash=shash2hex(self.task.mod),
            target=plain(self.task.target.export()),
            device=self.parts.device.name,
            fingerprint=self.parts.device.fingerprint,
            threads=_threads(self.task, self.parts.device),
            runtime_threads=runtime_threads,
            seed=self.seed,
            settings=dict(self.settings),
            versions=versions(),
        )

    def _open_journal(self) -> None:
        untuned = self.measurer.baseline()
        self.journal = Journal.create(self.work_dir, self._header(self.measurer.runtime_threads))
        self._record_baseline(untuned)

    def _record_baseline(self, untuned: Measurement | None) -> None:
        if untuned is not None:
            self.journal.append(
                Baseline(untuned.latency_s, untuned.spread_s, untuned.failure, untuned.message)
            )

    def _record(self, measurements: Sequence[Measurement]) -> None:
        """Journals a batch and shows the round."""
        number = len(self.journal.contents.rounds) + 1
        elapsed = self.clock.elapsed()
        trials = []
        for i, m in enumerate(measurements, len(self.candidates) + 1):
            assert m.candidate is not None
            trials.append(
                Trial(
                    trial=i,
                    round=number,
                    key=m.candidate.key.hex(),
                    trace=trace_json(m.candidate.materialise()),
                    latency_s=m.latency_s,
                    spread_s=m.spread_s,
                    build_s=m.build_s,
                    run_s=m.run_s,
                    failure=m.failure,
                    message=m.message,
                    elapsed_s=elapsed,
                )
            )
            self.candidates.append(m.candidate)
        seconds = self.clock.seconds()
        self.journal.append(*trials, Round(number, len(self.candidates), seconds, dict(self.counts)))
        best = self.journal.contents.best()
        failed = Counter(t.failure for t in self.journal.contents.trials if t.failure is not None)
        self.display.round(
            RoundReport(
                round=number,
                trials=len(self.candidates),
                budget=self.budget.trials,
                best_s=best.latency_s if best else None,
                gflops=self.task.flop / best.latency_s / 1e9 if best and best.latency_s else None,
                failures=failed,
                seconds=seconds,
            )
        )

    def _confirm(self) -> bool | None:
        """Times the fastest trials again and compares their output, until one of them stands; returns
        whether it was found equal to the untuned program, None when it could not be compared."""
        ranked = sorted(
            (t for t in self.journal.contents.trials if t.latency_s is not None),
            key=lambda t: t.latency_s or 0.0,
        )
        for start in range(0, len(ranked), FINALISTS):
            finalists = ranked[start : start + FINALISTS]
            confirmed = self.measurer.confirm([self.candidates[t.trial - 1] for t in finalists])
            for trial, m in zip(finalists, confirmed, strict=True):
                self.journal.append(Confirmation(trial.trial, m.latency_s, m.spread_s, m.failure, m.message))
                if m.failure is not None:
                    self.display.message(f"trial {trial.trial} is dropped ({m.failure}): {m.message}")
            if any(m.failure is None for m in confirmed):
                self._record_baseline(self.measurer.baseline())
                return None if any(m.message for m in confirmed if m.failure is None) else True
        return None

    def _best_trial(self) -> int | None:
        """The fastest trial that was confirmed, or while none is, the fastest one."""
        contents = self.journal.contents
        valid = [t for t in contents.confirmed() if t.latency_s is not None]
        stood = {c.trial for c in contents.confirmations}
        pool = [t for t in valid if t.trial in stood] or valid
        return min(pool, key=lambda t: t.latency_s or 0.0).trial if pool else None

    def _report(self, correct: bool | None, interrupted: bool) -> TuneResult:
        contents = self.journal.contents
        counts = {**self.counts, "measured": len(self.candidates)}
        unwritten: OSError | None = None
        try:
            write_database(self.work_dir, self.task, contents)
            report.write_curve(self.work_dir, contents)
        except OSError as error:  # what is written last is small, and the user sees the result all the same
            unwritten = error
        summary = report.Summary.of(
            contents, correct=correct, candidates=counts, seconds=self.clock.seconds()
        )
        try:
            summary.write(self.work_dir)
        except OSError as error:
            unwritten = unwritten or error
        stopped = contents.end is not None and contents.end.reason == "interrupted"
        self.display.finish(summary, "" if unwritten else report.closing(summary, contents, self.work_dir))
        if unwritten is not None:
            raise ConfigError(
                f"work_dir={self.work_dir} cannot take the run's result: {unwritten.strerror}. "
                f"{self.journal.path} holds all trials. Make room, or choose another work_dir."
            ) from unwritten
        return TuneResult(self.task, self.work_dir, summary, report.curve(contents), stopped, interrupted)


class _CallableModule(ModuleType):
    """`pruner.tune` is this module once it is imported; calling it calls the function of the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> TuneResult:
        return tune(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
