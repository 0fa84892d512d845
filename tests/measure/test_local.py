"""Measuring on this machine, against TVM's own evaluator and with everything that can go wrong."""

from __future__ import annotations

import os
import platform
import signal
import threading
import time

import numpy as np
import psutil
import pytest
import tvm
from tvm import te
from tvm.script import tirx as T
from tvm.target import Target

from pruner.errors import ConfigError, DeviceError, RejectedError
from pruner.measure.clock import Clock
from pruner.measure.local import check_runs_here
from pruner.measure.measurement import MeasureInterrupted


@T.prim_func(s_tir=True)
def in_place(A: T.Buffer((8,), "float32"), B: T.Buffer((0, 4), "float32"), n: T.int32):
    for i in range(8):
        with T.sblock("A"):
            v = T.axis.spatial(8, i)
            A[v] = T.sqrt(A[v]) * T.float32(2) + T.Cast("float32", n)


@T.prim_func(s_tir=True)
def in_place_otherwise(A: T.Buffer((8,), "float32"), B: T.Buffer((0, 4), "float32"), n: T.int32):
    for i in range(8):
        with T.sblock("A"):
            v = T.axis.spatial(8, i)
            A[v] = T.sqrt(A[v]) * T.float32(3) + T.Cast("float32", n)


@T.prim_func(s_tir=True)
def small_types(
    A: T.Buffer((16, 16), "uint8"), B: T.Buffer((16, 16), "int8"), C: T.Buffer((16, 16), "int32")
):
    for i, j, k in T.grid(16, 16, 16):
        with T.sblock("C"):
            v, w, r = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[v, w] = 0
            C[v, w] = C[v, w] + T.Cast("int32", A[v, r]) * T.Cast("int32", B[r, w])


def test_latencies_are_those_of_tvms_evaluator(programs, measuring):
    mod = programs.matmul(96)
    candidates = [programs.tiled(mod, 8), programs.candidate(mod)]
    modules = [tvm.compile(candidate.schedule.mod, target=programs.target).mod for candidate in candidates]
    arrays = [tvm.runtime.tensor(np.random.default_rng(i).random((96, 96), np.float32)) for i in range(3)]
    clock = Clock()
    with clock.running(), measuring(mod, threads=2) as measurer:
        assert measurer.runtime_threads == 2
        for _ in range(6):  # something else may run here, and disturb one of the two
            measured = measurer.measure(candidates)
            ratios = []
            for candidate, measurement, module in zip(candidates, measured, modules, strict=True):
                evaluator = module.time_evaluator("main", tvm.cpu(), number=10, repeat=9)
                ratios.append(measurement.latency_s / np.median(evaluator(*arrays).results))
                assert measurement.candidate is candidate
                assert measurement.failure is None
                assert measurement.spread_s > 0
            if all(0.6 < ratio < 1.6 for ratio in ratios):
                break
        assert all(0.6 < ratio < 1.6 for ratio in ratios)
        assert measurer.baseline().latency_s > measured[0].latency_s
    seconds = clock.seconds()
    assert seconds["build"] > max(measurement.build_s for measurement in measured)
    assert seconds["run"] >= sum(measurement.run_s for measurement in measured)


def test_every_failure_has_its_kind_and_the_others_their_results(programs, measuring):
    class Rejected(programs.candidate):
        def materialise(self):
            raise RejectedError("the post-processors\nError: refuse it")

    mods = ["copy", "undefined", "outside", "raising", "endless", "copy"]
    candidates = [programs.candidate(getattr(programs, name)) for name in mods]
    candidates.append(Rejected(programs.copy))
    with measuring(programs.copy, run_timeout_s=2.0) as measurer:
        found = measurer.measure(candidates)
        kinds = [measurement.failure for measurement in found]
        assert kinds == [None, "build", "run", "run", "timeout", None, "build"]
        for measurement in found:
            assert (measurement.latency_s is None) == (measurement.failure is not None)
            assert "\n" not in measurement.message
        messages = [measurement.message for measurement in found]
        assert "Divide by zero" in messages[1]
        assert "SIGSEGV" in messages[2]
        assert "no.such.function" in messages[3]
        assert "2 s" in messages[4]
        assert messages[6] == "Error: refuse it"
        assert measurer.measure([]) == []
        assert measurer.confirm(candidates[:1] + candidates[2:3])[1].failure == "run"


def test_a_killed_worker_costs_one_candidate(programs, measuring):
    mods = ["copy", "endless", "copy"]
    candidates = [programs.candidate(getattr(programs, name)) for name in mods]
    with measuring(programs.copy, run_timeout_s=60.0) as measurer:
        pool, ask, endless = measurer._pool, measurer._pool.ask, measurer._trials + 2

        def kill_all(computing):
            # The one that computes dies last: its death is what the parent answers at once.
            for worker in sorted(pool.workers, key=lambda worker: worker is computing):
                worker.process.kill()
                worker.process.wait()

        def watched(worker, command, *words, **limits):
            if command == "time" and words[0] == endless:
                threading.Timer(0.5, kill_all, [worker]).start()
            return ask(worker, command, *words, **limits)

        pool.ask = watched
        found = measurer.measure(candidates)
        pool.ask = ask
        assert [measurement.failure for measurement in found] == [None, "run", None]
        assert "SIGKILL" in found[1].message
        assert [m.failure for m in measurer.measure(candidates[:1])] == [None]


def test_wrong_programs_are_caught(programs, measuring):
    mod = programs.matmul(32)
    right, wrong = programs.tiled(mod, 8), programs.tiled(programs.matmul(32, scale=1.001), 8)
    with measuring(mod, workers=1, confirm_rounds=2, confirm_s=0.01) as measurer:
        assert [m.failure for m in measurer.measure([right, wrong])] == [None, None]
        confirmed = measurer.confirm([wrong, right])
        assert [m.failure for m in confirmed] == ["wrong", None]
        assert "largest error" in confirmed[0].message
        assert confirmed[0].latency_s is None
        assert confirmed[1].latency_s > 0
        assert measurer.check(right).failure is None
        assert measurer.check(wrong).failure == "wrong"


@pytest.mark.parametrize(("name", "other"), [(in_place, in_place_otherwise), (small_types, None)])
def test_unusual_arguments(programs, measuring, name, other):
    mod = programs.module(name)
    with measuring(mod, workers=1, confirm_rounds=2, confirm_s=0.01) as measurer:
        assert measurer.measure([programs.candidate(mod)])[0].failure is None
        assert measurer.confirm([programs.candidate(mod)])[0].failure is None
        if other is not None:
            assert measurer.check(programs.candidate(programs.module(other))).failure == "wrong"


def test_rewritten_weights_are_timed_and_compared(programs, measuring):
    a = te.placeholder((16, 16), "float32", name="A")
    b = te.placeholder((16, 16), "float32", name="B")
    k = te.reduce_axis((0, 16), name="k")
    free = {"layout_free_placeholders": [b]}
    c = te.compute((16, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C", attrs=free)
    mod = programs.module(te.create_prim_func([a, b, c]))
    candidate = programs.tiled(mod, 4)
    sch = candidate.schedule
    block = sch.get_sblock("C")
    rewrite = sch.cache_read(block, 1, "global")
    sch.transform_layout(block, ("read", 1), lambda p, q: (q // 4, p, q % 4))
    sch.annotate(rewrite, "meta_schedule.layout_rewrite_preproc", True)
    with measuring(mod, workers=1, confirm_rounds=2, confirm_s=0.01) as measurer:
        assert measurer.measure([candidate])[0].failure is None
        assert measurer.confirm([candidate])[0].failure is None


def test_ctrl_c_leaves_workers_alone_and_recycling_replaces_them(programs, measuring):
    candidate = programs.candidate(programs.copy)
    others = psutil.Process().children()  # of other tests

    def workers():
        return [child for child in psutil.Process().children() if child not in others]

    with measuring(programs.copy, workers=1, recycle_after=2) as measurer:
        assert measurer.measure([candidate])[0].failure is None
        (worker,) = workers()
        assert os.getpgid(worker.pid) != os.getpgid(0)
        os.kill(worker.pid, signal.SIGINT)
        time.sleep(0.2)
        assert measurer.measure([candidate])[0].failure is None
        assert not worker.is_running()
        (other,) = workers()
        assert measurer.measure([candidate])[0].failure is None
        assert other.is_running()
    measurer.close()
    assert workers() == []


def test_what_was_finished_survives_an_interrupted_batch(programs, measuring):
    candidates = [programs.candidate(programs.undefined), programs.candidate(programs.copy)]
    candidates.append(programs.candidate(programs.endless))
    with measuring(programs.copy, workers=1, run_timeout_s=60.0) as measurer:
        measurer.baseline()
        interrupt = threading.Timer(10.0, os.kill, [os.getpid(), signal.SIGINT])
        interrupt.start()
        with pytest.raises(MeasureInterrupted) as caught:
            measurer.measure(candidates)
        finished = caught.value.measurements
        assert [m.candidate for m in finished] == candidates[:2]
        assert [m.failure for m in finished] == ["build", None]
        assert measurer.measure(candidates[1:2])[0].failure is None


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"kind": "llvm", "num-cores": 2}, None),
        ({"kind": "llvm", "mtriple": f"{platform.machine()}-pc-linux-gnu", "num-cores": 2}, None),
        ({"kind": "llvm", "mtriple": "riscv64-linux-gnu", "num-cores": 2}, "code for riscv64"),
        ({"kind": "c"}, "kind c cannot"),
    ],
)
def test_targets_of_other_devices_are_refused(target, said):
    if said is None:
        check_runs_here(Target(target))
        return
    with pytest.raises(DeviceError, match=said):
        check_runs_here(Target(target))


@pytest.mark.parametrize(
    "setting", [{"workers": 0}, {"recycle_after": 0}, {"build_timeout_s": 0}, {"run_timeout_s": -1.0}]
)
def test_settings_that_cannot_work_are_refused(programs, measuring, setting):
    (name,) = setting
    with pytest.raises(ConfigError, match=name), measuring(programs.matmul(8), **setting):
        pass


def test_an_untuned_program_that_fails_is_not_tried_again_and_again(programs, measuring, monkeypatch):
    candidates = [programs.candidate(programs.copy) for _ in range(3)]
    with measuring(programs.raising, workers=1) as measurer:
        asked = []
        ask = measurer._pool.ask

        def counted(worker, name, *arguments, **settings):
            asked.append(name)
            return ask(worker, name, *arguments, **settings)

        monkeypatch.setattr(measurer._pool, "ask", counted)
        assert measurer.baseline().failure == "run"
        confirmed = measurer.confirm(candidates)
        again = measurer.confirm(candidates[:1])
    assert asked.count("reference") == 1
    assert asked.count("time") == 1
    for measurement in [*confirmed, *again]:
        assert measurement.failure is None
        assert measurement.latency_s > 0
        assert "not compared" in measurement.message
