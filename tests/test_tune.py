"""The loop, mostly on a dummy device."""

import json
import os
import time
from typing import ClassVar

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.target import Target

import pruner
from pruner.analyzer.device import Device
from pruner.analyzer.draft import NoDraft
from pruner.costmodel.random import RandomVerifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.display import Display
from pruner.errors import ConfigError, DeviceError, UntunableError
from pruner.measure import gpu
from pruner.measure.clock import STAGES
from pruner.measure.measurement import Measurement, Measurer
from pruner.search.random import RandomSearch
from pruner.testing.dummy import DummyMeasurer
from pruner.tune import placed
from pruner.workload import load_task, make_task
from tests.run_util import latency, matmul


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

    # What is imported and set up once in a process counts, too.
    first = go(DummyMeasurer(latency=latency, baseline_s=1e-3), trials=1)
    folder = first.work_dir / "timed"
    result = go(Slow(latency=latency, baseline_s=1e-3), trials=1000, minutes=4 / 60, work_dir=folder)
    assert 5 <= result.summary.trials < 200


def test_minutes_that_are_up_before_anything_is_measured_are_told(go, tmp_path):
    with pytest.raises(ConfigError, match=r"the 1e-09 minutes are up .* give more"):
        go(DummyMeasurer(latency=latency, baseline_s=1e-3), minutes=1e-9, work_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


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


def test_features_of_a_verifier_that_is_not_used_are_not_extracted(go):
    result = go(search=RandomSearch(), verifier=RandomVerifier(seed=0))
    assert result.summary.seconds["features"] == 0


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


def test_candidates_that_arrays_do_not_tell_are_counted(go, tmp_path):
    grouped = load_task("GRP/0", Target({"kind": "llvm", "num-cores": 2})).mod["main"]
    runs = {"grouped": grouped, "product": matmul()}
    told = {}
    for name, mod in runs.items():
        go(mod=mod, verifier=XGBVerifier(features="statement_fast"), work_dir=tmp_path / name)
        told[name] = json.loads((tmp_path / name / "summary.json").read_text())
    notes = {name: sum("counts them as reference" in note for note in told[name]["notes"]) for name in runs}
    assert notes == {"grouped": 1, "product": 0}
    candidates = told["grouped"]["candidates"]
    assert 0 < candidates["reference"] < candidates["verified"]
    assert "reference" not in told["product"]["candidates"]
