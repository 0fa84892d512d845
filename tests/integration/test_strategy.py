"""PrunerStrategy: TVM's own tuner drives our search."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi
from tvm import te
from tvm.ir import IRModule
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from pruner._tvm import fast_intrinsics
from pruner.adapt.rule import Scratch
from pruner.analyzer.device import Device
from pruner.analyzer.roofline import RooflineDraft
from pruner.costmodel.verifier import TrainingSet
from pruner.costmodel.xgb import XGBVerifier
from pruner.integration.strategy import PrunerStrategy
from pruner.search.latent import LatentSearch
from pruner.search.random import RandomSearch
from pruner.search.strategy import SearchStrategy

TARGET = {"kind": "llvm", "num-cores": 2}
DEVICE = Device.load("x86-64")


@pytest.fixture(autouse=True)
def tvm_logger() -> Iterator[None]:
    """Undoes what tune_tir does to TVM's logger, which a second call does not survive under pytest."""
    yield
    logger = logging.getLogger("tvm.s_tir.meta_schedule")
    logger.handlers.clear()
    logger.propagate = True


def latency(mod: IRModule) -> float:
    """What the made-up device takes for a program: its own, but arbitrary."""
    return 1e-3 + (tvm_ffi.structural_hash(mod) % 1000) * 1e-6


@derived_object
class StubBuilder(ms.builder.PyBuilder):
    """The artifact's name is the latency; every seventh program does not compile."""

    def build(self, build_inputs: Sequence[ms.builder.BuilderInput]) -> list[ms.builder.BuilderResult]:
        results = []
        for one in build_inputs:
            broken = tvm_ffi.structural_hash(one.mod) % 7 == 0
            # TVM deletes the artifact's folder afterwards.
            artifact = Path(tempfile.mkdtemp()) / repr(latency(one.mod))
            failed = ms.builder.BuilderResult(None, "broken")
            results.append(failed if broken else ms.builder.BuilderResult(str(artifact), None))
        return results


@derived_object
class StubFuture(ms.runner.PyRunnerFuture):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def done(self) -> bool:
        return True

    def result(self) -> ms.runner.RunnerResult:
        return ms.runner.RunnerResult([self._seconds], None)


@derived_object
class StubRunner(ms.runner.PyRunner):
    def run(self, runner_inputs: Sequence[ms.runner.RunnerInput]) -> list[Any]:
        return [StubFuture(float(Path(one.artifact_path).name)) for one in runner_inputs]


class Watched(XGBVerifier):
    """Remembers what it was fitted on."""

    def __init__(self) -> None:
        super().__init__(features="statement")
        self.sets: list[TrainingSet] = []

    def fit(self, training_set: TrainingSet) -> None:
        super().fit(training_set)
        self.sets.append(training_set)


class Ranked(RandomSearch):
    """Random proposals in a run whose verifier learns."""

    uses_verifier = True


def matmul(n: int) -> Any:
    a = te.placeholder((n, n), "float32", "a")
    b = te.placeholder((n, n), "float32", "b")
    k = te.reduce_axis((0, n), "k")
    return te.create_prim_func([a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")])


def tune(mod: Any, search: SearchStrategy, verifier: XGBVerifier, folder: Path, trials: int) -> ms.Database:
    fast_intrinsics()
    return ms.tir_integration.tune_tir(
        mod,
        Target(TARGET),
        str(folder),
        trials,
        num_trials_per_iter=4,
        builder=StubBuilder(),
        runner=StubRunner(),
        cost_model="random",
        strategy=PrunerStrategy(
            search, draft=RooflineDraft(device=DEVICE), verifier=verifier, adapt=Scratch()
        ),
        seed=0,
    )


@pytest.mark.parametrize("search", [RandomSearch(), LatentSearch()], ids=["random", "latent"])
def test_tune_tir_runs_our_strategy(tmp_path: Path, search: SearchStrategy) -> None:
    verifier = XGBVerifier(features="symbols")
    database = tune(matmul(32), search, verifier, tmp_path, 10)
    assert verifier.fitted == search.uses_verifier
    records = database.get_all_tuning_records()
    assert len(records) == 10
    best = {}
    for record in records:
        schedule = Schedule(record.workload.mod)
        record.trace.apply_to_schedule(schedule, remove_postproc=False)
        seconds = float(record.run_secs[0])
        best[tvm_ffi.structural_hash(schedule.mod)] = seconds
        assert seconds == 1e10 or seconds == pytest.approx(latency(schedule.mod))
    assert len(best) == 10


def test_the_tasks_of_a_module_teach_one_verifier(tmp_path: Path) -> None:
    mod = IRModule(
        {name: matmul(n).with_attr("global_symbol", name) for name, n in (("small", 16), ("large", 32))}
    )
    verifier = Watched()
    tune(mod, Ranked(), verifier, tmp_path, 16)
    last = verifier.sets[-1]
    assert len(last) == 16
    assert set(last.group) == {0, 1}
    assert sorted(last.order) == list(range(16))
    for task in (0, 1):
        assert last.labels[last.group == task].max() == 1
    assert verifier.fitted
    assert len(last.features["statement"]) == 16


def test_a_task_without_a_space_does_not_end_the_others(tmp_path: Path, caplog: Any) -> None:
    a = te.placeholder((), "float32", "a")
    scalar = te.create_prim_func([a, te.compute((), lambda: a() + 1, "b")])
    mod = IRModule(
        {
            "scalar": scalar.with_attr("global_symbol", "scalar"),
            "matmul": matmul(16).with_attr("global_symbol", "matmul"),
        }
    )
    database = tune(mod, RandomSearch(), XGBVerifier(features="statement"), tmp_path, 8)
    assert len(database.get_all_tuning_records()) >= 4
