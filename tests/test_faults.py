"""What a run does when programs, the disk or a part of it fail."""

import json
from typing import ClassVar

import numpy as np
import pytest
import tvm
from tvm import te

import pruner
from pruner.display import Display
from pruner.errors import ConfigError, RejectedError
from pruner.measure.local import LocalMeasurer
from pruner.records.database import load
from pruner.records.journal import Journal
from pruner.search.candidate import RowCandidate
from pruner.search.random import RandomSearch
from pruner.testing.dummy import DummyMeasurer
from pruner.workload import make_task
from tests.run_util import Scores, latency, matmul


def test_failures_are_trials_and_the_rest_goes_on(go, tmp_path):
    kinds = iter(["build", "timeout", "run", None] * 3)
    result = go(DummyMeasurer(latency=latency, failure=lambda _: next(kinds, None), baseline_s=1e-3))
    assert result.summary.failures == {"build": 3, "run": 3, "timeout": 3}
    assert result.summary.trials == 12
    assert len(result.database) == 3


def test_a_run_without_a_single_success_reports(go):
    result = go(DummyMeasurer(latency=latency, failure=lambda _: "build", baseline_s=1e-3))
    assert (result.summary.best_s, result.best, result.summary.failed) == (None, None, 12)
    a, b, c = (np.random.default_rng(0).random((32, 32), np.float32) for _ in range(3))
    result.compile()(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_a_wrong_program_is_named_dropped_and_the_next_taken(go):
    class Messages(Display):
        said: ClassVar[list[str]] = []

        def message(self, text):
            self.said.append(text)

    measurer = DummyMeasurer(latency=latency, baseline_s=1e-3)
    ranked = []
    measurer._wrong = lambda c: c.key in {best.key for best in sorted(measurer.measured, key=latency)[:4]}
    result = go(measurer, display=Messages())
    ranked = sorted(map(latency, measurer.measured))
    assert result.summary.best_s == ranked[4]
    assert result.summary.failures == {"wrong": 4}
    assert result.summary.correct is True
    assert sum("wrong" in text for text in Messages.said) == 4
    assert result.best.latency_s == ranked[4]


def test_an_interrupt_in_a_batch_loses_nothing(go, tmp_path):
    class Interrupted(DummyMeasurer):
        def measure(self, candidates):
            done = super().measure(candidates)
            if len(self.measured) > 5:
                raise pruner.measure.measurement.MeasureInterrupted(done[:2])
            return done

    result = go(Interrupted(latency=latency, baseline_s=1e-3))
    assert result.interrupted
    assert result.summary.trials == 7
    assert Journal.read(tmp_path / "run" / "journal.jsonl").end.reason == "interrupted"
    assert len(result.database) == 7


def test_what_was_measured_before_something_broke_becomes_a_result(go, tmp_path):
    calls = []

    def break_later(n):
        calls.append(n)
        if len(calls) > 6:
            raise ZeroDivisionError("of the user's own")
        return np.zeros(n)

    measurer = DummyMeasurer(latency=latency, baseline_s=1e-3)
    with pytest.raises(ZeroDivisionError):
        go(measurer, draft=Scores(break_later), trials=100)
    assert measurer.closed
    true = [latency(candidate) for candidate in measurer.measured]
    assert len(true) >= 5
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["trials"], summary["best_s"], summary["correct"]) == (len(true), min(true), None)
    assert load(tmp_path / "run").latency_s == min(true)
    assert Journal.read(tmp_path / "run" / "journal.jsonl").end.reason == "error"


def test_a_disk_that_is_full_at_the_end_is_said(go, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    shown = []

    class Table(Display):
        def finish(self, summary=None, closing=""):
            shown.append(summary)

    monkeypatch.setattr(pruner.report, "write_curve", full)
    with pytest.raises(ConfigError, match=r"No space left on device.*holds all trials"):
        go(display=Table())
    assert shown[0].trials == 12
    assert len(Journal.read(tmp_path / "run" / "journal.jsonl").trials) == 12


def test_a_wrong_program_that_really_runs_is_caught(go, monkeypatch, tmp_path):
    """One candidate's schedule computes zeros, which is faster than any product."""
    a, b = (te.placeholder((32, 32), "float32", name=name) for name in "AB")
    zeros = te.create_prim_func([a, b, te.compute((32, 32), lambda i, j: te.const(0.0), name="C")])
    honest = RowCandidate.materialise
    keys = []

    def materialise(candidate):
        keys.append(candidate.key)
        if candidate.key != keys[0]:
            return honest(candidate)
        return tvm.s_tir.Schedule(tvm.IRModule({"main": zeros.with_attr("global_symbol", "main")}))

    monkeypatch.setattr(RowCandidate, "materialise", materialise)
    task = make_task(matmul(), tvm.target.Target({"kind": "llvm", "num-cores": 1}))
    result = go(LocalMeasurer(task=task, threads=1), trials=4, target=task.target)
    (wrong,) = Journal.read(tmp_path / "run" / "journal.jsonl").confirmations[:1]
    assert (wrong.trial, wrong.failure) == (1, "wrong")
    assert "largest error" in wrong.message
    assert result.summary.failures == {"wrong": 1}
    assert result.summary.correct is True
    assert result.summary.best_s > 0
    assert len(result.database) < 4
    assert "A[" in result.best.schedule.mod.script()


def test_a_candidate_that_tvm_refuses_is_a_failed_trial(go, tmp_path):
    """A strategy of one's own may propose what TVM's post-processors refuse."""

    class Refused(RowCandidate):
        def materialise(self):
            raise RejectedError("refused")

    class Careless(RandomSearch):
        uses_verifier = True

        def start(self, space, **given):
            session = super().start(space, **given)
            propose = session.propose
            session.propose = lambda n: [
                Refused(space, c.sketch_id, c.row) if i == 1 else c for i, c in enumerate(propose(n))
            ]
            return session

    class Local(DummyMeasurer):
        def _one(self, candidate, failure):
            return super()._one(candidate, "build" if isinstance(candidate, Refused) else failure)

    result = go(Local(latency=latency, baseline_s=1e-3), search=Careless())
    assert result.summary.failures == {"build": 3}
    assert result.summary.trials == 12
