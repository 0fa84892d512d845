"""The tuning loop: propose, measure, learn; then confirm the best program and leave the run's files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from tvm.s_tir.meta_schedule.utils import shash2hex

from pruner import compiled, report
from pruner.adapt.learner import Learner
from pruner.components import Budget, Components
from pruner.display import Display, RoundReport
from pruner.errors import ConfigError, PrunerError, UntunableError
from pruner.interrupt import Stop, stop_on_interrupt
from pruner.measure.clock import Clock, stage
from pruner.measure.measurement import MeasureInterrupted, Measurement, Measurer
from pruner.placement import host_threads
from pruner.records.database import plain, write_database
from pruner.records.journal import (
    Baseline,
    Confirmation,
    End,
    Header,
    Journal,
    Round,
    check_free,
)
from pruner.records.trials import for_database, trials_of
from pruner.records.versions import versions
from pruner.result import TuneResult
from pruner.search.candidate import Candidate
from pruner.search.space import Space
from pruner.search.strategy import Session
from pruner.workload import Task

# So many of the fastest trials are timed again and compared with the untuned program at once.
FINALISTS = 3

# Why a run ends before its trials are spent, in words.
_ENDS = {
    "exhausted": "The design space is exhausted: no further program can be proposed.",
    "minutes": "The time is up.",
}


class Run:
    """One run of the loop; `go` does it all. picture: whether it draws the curve."""

    def __init__(
        self,
        task: Task,
        components: Components,
        measurer: Measurer,
        budget: Budget,
        seed: int,
        work_dir: Path,
        settings: Mapping[str, Any],
        display: Display,
        clock: Clock,
        picture: bool = True,
    ) -> None:
        self.task = task
        self.components = components
        self.measurer = measurer
        self.budget = budget
        self.seed = seed
        self.work_dir = work_dir.absolute()  # the program may change its working directory
        self.settings = settings
        self.display = display
        self.clock = clock
        self.picture = picture
        self.journal: Journal
        self.candidates: list[Candidate] = []
        self.counts: dict[str, int] = {}
        self.notes: list[str] = []

    def go(self, notes: Sequence[str] = ()) -> TuneResult:
        """Tunes, confirms, reports. The measurer is closed and the display finished, whatever happens."""
        shown = {
            "device": self.components.device.name,
            "trials": self.budget.trials,
            "batch": self.budget.batch,
        }
        if not self.measurer.times:
            shown["measure"] = "compile"
        if self.measurer.pool is not None:
            shown["measure"] = "replay"
        try:
            with self.clock.running():
                check_free(self.work_dir, self._header())
                self.display.start(self.task, {**shown, "work_dir": self.work_dir})
                for note in notes:
                    self._note(note)
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
                if not self.candidates and reason == "minutes":
                    raise ConfigError(
                        f"the {self.budget.minutes:g} minutes are up and nothing has been measured yet: give "
                        "more."
                    )
                if not self.candidates:
                    raise KeyboardInterrupt
                if reason in _ENDS:
                    self.display.message(_ENDS[reason])
                correct = self._confirm()
                self.journal.append(End(self.journal.contents.winner(), reason))
            except KeyboardInterrupt as interrupt:
                if not self.candidates and not isinstance(interrupt, MeasureInterrupted):
                    raise
                with stop.held():
                    if isinstance(interrupt, MeasureInterrupted):
                        self._record(interrupt.measurements)
                    interrupted = True
                    self.journal.append(End(self.journal.contents.winner(), "interrupted"))
            except Exception:
                with stop.held():
                    self._salvage()
                raise
            with stop.held():
                return self._report(correct, interrupted)

    def _note(self, text: str) -> None:
        """Shows a note, which summary.json then holds too."""
        self.notes.append(text)
        self.display.message(text)

    def _salvage(self) -> None:
        """Something broke, a component of the user's own perhaps: what was measured becomes a result first.
        The error is told by the caller, and one of the disk would only be told twice."""
        if self.candidates:
            with suppress(PrunerError):
                self.journal.append(End(self.journal.contents.winner(), "error"))
                self._report(None, interrupted=True)

    def _space(self) -> Space:
        """The design space, that of the pool where there is one; when it is empty, the error says how fast
        the program is as it stands."""
        pool = self.measurer.pool
        try:
            space = Space.of(self.task) if pool is None else pool.space
        except UntunableError as error:
            raise self._untunable(str(error)) from error
        space.count_anew()
        slow = space.supported.count(False)
        if slow:
            self._note(
                f"{slow} of {len(space.sketches)} sketches cannot be expressed as arrays: their schedules "
                "are replayed one by one, so fewer are explored."
            )
        return space

    def _untunable(self, reason: str) -> UntunableError:
        untuned = self.measurer.baseline()
        if untuned is None:
            return UntunableError(reason)
        return UntunableError(f"{reason} Its baseline latency is {report.latency(untuned.latency_s)}.")

    def _rounds(self, space: Space, stop: Stop) -> str:
        """Proposes and measures until something runs out; returns what."""
        parts = self.components
        rng = np.random.default_rng(self.seed)
        learner = Learner(parts.verifier, parts.adapt, parts.device, self._note)
        recorded = self.measurer.pool
        # Its rows alone: what was recorded of them is for the measurer to tell.
        pool = None if recorded is None else recorded[:]
        session = parts.search.start(space, draft=parts.draft, verifier=learner.verifier, pool=pool, rng=rng)
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
            self._count(session, space)
            measurements = self.measurer.measure(batch)
            with stop.held():
                self._record(measurements)
            stop.check()
            with stage("fit"):
                session.observe(measurements)
            if self.measurer.times and parts.search.uses_verifier and not self._spent(stop):
                learner.observe(measurements, task)
        return reason

    def _count(self, session: Session, space: Space) -> None:
        """The candidates so far; those that take the slow ways are counted where there are some."""
        if space.referred and "reference" not in self.counts:
            self._note(
                "Arrays do not tell all features of some candidates: those are read from their programs, one "
                "by one. summary.json counts them as reference."
            )
        self.counts = {
            "explored": session.explored,
            "drafted": session.drafted,
            "verified": session.verified,
        }
        if space.slow_rows:
            self.counts["replayed"] = space.slow_rows
        if space.referred:
            self.counts["reference"] = len(space.referred)

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
            device=self.components.device.name,
            fingerprint=self.components.device.fingerprint,
            threads=host_threads(self.components.device),
            runtime_threads=runtime_threads,
            seed=self.seed,
            settings=dict(self.settings),
            versions=versions(self.task.target.kind.name),
            timed=self.measurer.times,
            replayed=self.measurer.pool is not None,
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
        if not measurements:
            return
        number = len(self.journal.contents.rounds) + 1
        measured = len(self.candidates)
        elapsed = self.clock.elapsed()
        candidates = [m.candidate for m in measurements if m.candidate is not None]
        predicted: list[float | None] = [None] * len(candidates)
        if not self.measurer.times:
            predicted = compiled.predicted(self.components.draft, candidates)
        trials = trials_of(
            candidates,
            measurements,
            predicted,
            number,
            measured + 1,
            elapsed,
            replayed=self.measurer.pool is not None,
        )
        seconds = self.clock.seconds()
        self.counts["measured"] = measured + len(trials)
        self.journal.append(*trials, Round(number, measured + len(trials), seconds, dict(self.counts)))
        self.candidates += candidates
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
                compiled="" if self.measurer.times else compiled.so_far(self.journal.contents),
            )
        )

    def _confirm(self) -> bool | None:
        """Times the fastest trials again and compares their output, until one of them stands; returns
        True when the best was found equal to the untuned program, None when nothing was compared."""
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
                    self._note(f"trial {trial.trial} is dropped ({m.failure}): {m.message}")
            stood = [m for m in confirmed if m.failure is None]
            if stood:
                self._record_baseline(self.measurer.baseline())
                return min(stood, key=lambda m: m.latency_s or 0.0).compared or None
        return None

    def _report(self, correct: bool | None, interrupted: bool) -> TuneResult:
        contents = self.journal.contents
        counts = {**self.counts, "measured": len(self.candidates)}
        unwritten: OSError | None = None
        try:
            if contents.header.timed:
                entered = for_database(contents, self.candidates, self._note)
                write_database(self.work_dir, self.task, entered)
            report.write_curve(self.work_dir, contents, picture=self.picture)
        except OSError as error:  # what is written last is small, and the user sees the result all the same
            unwritten = error
        summary = report.Summary.of(
            contents,
            correct=correct,
            candidates=counts,
            seconds=self.clock.seconds(),
            notes=self.notes,
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
