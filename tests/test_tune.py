"""The loop, mostly on a dummy device."""

import json
import os
import time
from typing import ClassVar

import numpy as np
import pytest
import tvm
from tvm import te

import pruner
from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel, NoDraft
from pruner.costmodel.random import RandomVerifier
from pruner.display import Display
from pruner.errors import ConfigError, DeviceError, RejectedError, UntunableError
from pruner.measure import gpu
from pruner.measure.clock import STAGES
from pruner.measure.local import LocalMeasurer
from pruner.measure.measurement import Measurement, Measurer
from pruner.records.database import load
from pruner.records.journal import Journal
from pruner.search.candidate import RowCandidate
from pruner.search.random import RandomSearch
from pruner.testing.dummy import DummyMeasurer
from pruner.tune import placed
from pruner.workload import make_task


def matmul(n=32):
    a = te.placeholder((n, n), "float32", name="A")
    b = te.placeholder((n, n), "float32", name="B")
    k = te.reduce_axis((0, n), name="k")
    return te.create_prim_func(
        [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]
    )


def latency(candidate):
    """Any number that depends on the program alone."""
    return 1e-6 * (1 + int.from_bytes(candidate.key[-64:], "little") % 997)


@pytest.fixture
def go(tmp_path):
    device = Device.load("x86-64")

    def run(measurer=None, mod=None, **settings):
        measurer = measurer or DummyMeasurer(latency=latency, baseline_s=1e-3)
        settings = {"trials": 12, "batch": 5, "work_dir": tmp_path / "run", "device": device, **settings}
        return pruner.tune(mod or matmul(), measurer=measurer, **settings)

    return run


def test_a_run_leaves_its_files_and_they_agree(go, tmp_path):
    measurer = DummyMeasurer(latency=latency, baseline_s=1e-3)
    result = go(measurer)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "journal.jsonl",
        "database_workload.json",
        "database_tuning_record.json",
        "curve.csv",
        "curve.png",
        "summary.json",
    }
    assert measurer.closed
    true = [latency(candidate) for candidate in measurer.measured]
    assert len({candidate.key for candidate in measurer.measured}) == 12
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["trials"], summary["failed"], summary["correct"]) == (12, 0, True)
    assert summary["best_s"] == min(true) == result.best.latency_s
    assert summary["candidates"]["measured"] == 12
    assert summary["candidates"]["explored"] >= summary["candidates"]["drafted"] >= 12
    assert list(result.curve["latency_s"]) == true
    assert [len(r) for r in np.split(true, np.flatnonzero(np.diff(result.curve["round"])) + 1)] == [5, 5, 2]
    assert len(result.database) == 12


def test_every_second_has_one_stage(go):
    class Slow(DummyMeasurer):
        def measure(self, candidates):
            with pruner.measure.clock.stage("run"):
                time.sleep(0.3)
            return super().measure(candidates)

    start = time.perf_counter()
    seconds = go(Slow(latency=latency, baseline_s=1e-3)).summary.seconds
    wall = time.perf_counter() - start
    assert set(seconds) == {*STAGES, "total"}
    assert sum(seconds[stage] for stage in STAGES) == pytest.approx(seconds["total"])
    assert seconds["total"] <= wall
    assert seconds["run"] == pytest.approx(0.9, abs=0.2)


def test_the_same_seed_proposes_the_same_and_another_does_not(go, tmp_path):
    def keys(seed, folder):
        measurer = DummyMeasurer(latency=latency, baseline_s=1e-3)
        go(measurer, seed=seed, work_dir=tmp_path / folder)
        return [candidate.key for candidate in measurer.measured]

    assert keys(0, "a") == keys(0, "b") != keys(1, "c")


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


def test_a_small_space_ends_when_it_is_exhausted(go):
    tiny = matmul(2)
    measurer = DummyMeasurer(latency=latency, baseline_s=1e-3)
    result = go(measurer, mod=tiny, trials=10_000)
    programs = {tvm.s_tir.meta_schedule.utils.shash2hex(c.materialise().mod) for c in measurer.measured}
    assert 1 < result.summary.trials == len(programs) < 10_000
    again = DummyMeasurer(latency=latency, baseline_s=1e-3)
    device = Device.load("x86-64")
    go(
        again,
        mod=tiny,
        trials=10_000,
        search=RandomSearch(),
        draft=NoDraft(device=device),
        work_dir=result.work_dir / "b",
    )
    assert {tvm.s_tir.meta_schedule.utils.shash2hex(c.materialise().mod) for c in again.measured} == programs


def test_minutes_stop_a_run(go):
    class Slow(DummyMeasurer):
        def measure(self, candidates):
            time.sleep(0.4)
            return super().measure(candidates)

    result = go(Slow(latency=latency, baseline_s=1e-3), trials=1000, minutes=1 / 60)
    assert 5 <= result.summary.trials < 50


@pytest.mark.parametrize("setting", [{"trials": 0}, {"batch": -1}, {"minutes": 0}, {"trials": 2.5}])
def test_bad_budgets(go, tmp_path, setting):
    (name,) = setting
    with pytest.raises(ConfigError, match=name):
        go(**setting)
    assert not (tmp_path / "run").exists()


def test_an_occupied_work_dir_is_left_alone(go, tmp_path):
    go()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(ConfigError, match="another task"):
        go(mod=matmul(16))
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_an_untunable_program_is_reported_with_its_baseline(go, tmp_path):
    a = te.placeholder((1,), "float32", name="A")
    single = te.create_prim_func([a, te.compute((1,), lambda i: a[i] + 1.0, name="C")])
    with pytest.raises(UntunableError, match="1 ms"):
        go(mod=single)
    assert not (tmp_path / "run").exists()


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


def test_features_of_a_verifier_that_is_not_used_are_not_extracted(go):
    result = go(search=RandomSearch(), verifier=RandomVerifier(seed=0))
    assert result.summary.seconds["features"] == 0


class Scores(DraftModel):
    """A draft model whose scores come from a function."""

    def __init__(self, make):
        super().__init__(device=Device.load("x86-64"), explored=100, size=50)
        self.make = make

    def score(self, population):
        return self.make(len(population))


class Ranks(RandomVerifier):
    """A verifier whose scores come from a function."""

    fitted = True

    def __init__(self, make):
        super().__init__(seed=0)
        self.make = make

    def predict(self, features):
        return self.make(len(features["symbols"]))


@pytest.mark.parametrize("make", [np.zeros, lambda n: [1.0] * n, lambda n: -np.arange(n, dtype="float32")])
def test_scores_may_be_any_numbers(go, make):
    assert go(draft=Scores(make), verifier=Ranks(make)).summary.trials == 12


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda n: np.full(n, np.nan), "NaN"),
        (lambda n: np.zeros(n - 1), "candidates"),
        (lambda n: np.zeros((n, 1)), "shape"),
        (lambda n: np.full(n, "x"), "type"),
    ],
)
def test_scores_that_break_the_contract_are_refused(go, tmp_path, make, said):
    with pytest.raises(ConfigError, match=f"draft model Scores.*{said}"):
        go(draft=Scores(make))
    with pytest.raises(ConfigError, match=f"verifier Ranks.*{said}"):
        go(verifier=Ranks(make))
    assert not (tmp_path / "run").exists()


def test_a_draft_that_keeps_nothing_is_reported(go):
    with pytest.raises(UntunableError, match="draft model"):
        go(draft=Scores(lambda n: np.full(n, np.inf)))


@pytest.mark.parametrize("setting", [{"explored": 0}, {"size": 0}, {"random": -1}, {"size": 1.5}])
def test_bad_draft_sizes(setting):
    (name,) = setting
    with pytest.raises(ConfigError, match=name):
        NoDraft(device=Device.load("x86-64"), **setting)


@pytest.mark.parametrize("part", ["draft", "verifier", "search", "adapt"])
def test_a_part_that_is_none_is_refused(go, part):
    with pytest.raises(ConfigError, match=f"{part} is 'symbol', a str"):
        go(**{part: "symbol"})


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
    def full(*_):
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


def test_more_threads_than_cores_are_not_used(go):
    class Messages(Display):
        said: ClassVar[list[str]] = []

        def message(self, text):
            self.said.append(text)

    cores = len(os.sched_getaffinity(0))
    result = go(target={"kind": "llvm", "num-cores": cores + 3}, display=Messages())
    assert result.summary.threads == cores
    assert any(f"TVM_NUM_THREADS={cores}" in text for text in Messages.said)


def test_a_scalar_block_is_untunable(go):
    a = te.placeholder((), "float32", name="A")
    with pytest.raises(UntunableError, match="1 ms"):
        go(mod=te.create_prim_func([a, te.compute((), lambda: a() + 1.0, name="C")]))


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


def test_what_was_not_compared_is_not_called_correct(go):
    class Plain(Measurer):
        def measure(self, candidates):
            return [Measurement(c, latency(c), 0.0, 0.0, 0.0) for c in candidates]

    assert go(Plain()).summary.correct is None


def test_the_draft_sees_the_cores_and_vectors_of_the_target(tmp_path):
    target = {"kind": "llvm", "mcpu": "x86-64", "num-cores": 1}
    device, task, _ = placed(Device.load("x86-64"), target, lambda target: make_task(matmul(), target))
    assert (device.cores, device.vector_bytes, device.registers) == (1, 16, 16)
    assert device.peak["float32"] < Device.load("x86-64").peak["float32"]
    assert task.target.attrs["num-cores"] == 1


def test_a_device_is_taken_by_name():
    with pytest.raises(DeviceError, match=r"unknown device a200.*a100-40g"):
        pruner.tune(matmul(), device="a200")
    if gpu.arch() is None:
        with pytest.raises(DeviceError, match="measure=compile"):
            pruner.tune(matmul(), device="a100-40g")
