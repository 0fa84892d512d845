"""The GPU's way through a worker, with the CPU in the GPU's place."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.ir import save_json
from tvm.s_tir.meta_schedule.testing.te_workload import CONFIGS
from tvm.target import Target

from pruner.measure.cuda import generate
from pruner.measure.runtime import GpuRuntime, runtime_of, untuned
from pruner.measure.timing import TimingRule
from pruner.measure.worker import Bench
from pruner.workload import load_task

A100 = Target("nvidia/nvidia-a100")


class Unhurried:
    """A device whose launches return at once: the CPU, that counts how often it was waited for."""

    def __init__(self):
        self.waits = 0

    def __getattr__(self, name):
        return getattr(tvm.cpu(), name)

    def sync(self):
        self.waits += 1


def test_calls_are_waited_for_and_the_first_is_not_timed():
    device, calls = Unhurried(), []
    call = GpuRuntime(device).finished(lambda *given: calls.append(given), [1, 2])
    assert calls == [(1, 2)]
    assert device.waits == 1
    call()
    assert calls == [(1, 2)] * 2
    assert device.waits == 2


def test_a_worker_times_and_checks_on_its_runtimes_device(programs):
    mod = programs.matmul(32)
    bench = Bench(save_json(mod), save_json(programs.target), TimingRule(), GpuRuntime(tvm.cpu()))
    bench.start()
    bench.build(1, save_json(programs.tiled(mod, 8).schedule.mod))
    bench.build(2, save_json(programs.tiled(programs.matmul(32, scale=1.001), 8).schedule.mod))
    bench.reference()
    assert bench.check(1) is None
    assert "largest error" in bench.check(2)
    assert min(bench.time(1, None)) > 0
    assert min(bench.sample(1, 0.01)) > 0
    bench.quieten()


def test_a_fault_on_a_gpu_costs_the_worker_and_not_the_next_candidate(programs, measuring):
    """After one, a CUDA context runs nothing; here the worker is the CPU's and says it is a GPU's."""
    with measuring(programs.copy, workers=1) as measurer:
        measurer.baseline()
        (worker,) = measurer._pool.workers
        candidates = [programs.candidate(mod) for mod in (programs.raising, programs.copy)]
        assert [m.failure for m in measurer.measure(candidates)] == ["run", None]
        assert worker.running
        measurer._on_gpu = True
        assert [m.failure for m in measurer.measure(candidates)] == ["run", None]
        assert not worker.running


def test_devices_by_target(programs):
    assert runtime_of(programs.target).device == tvm.cpu()
    assert runtime_of(A100).device == tvm.cuda(0)
    assert untuned(programs.copy, programs.target) is programs.copy


@pytest.mark.parametrize("family", [name for name in CONFIGS if "WIN" not in name])
def test_every_untuned_program_has_a_form_that_runs_on_a_gpu(family):
    task = load_task(f"{family}/0", A100)
    generated = generate(untuned(task.mod, A100), A100)
    assert generated.launches
    assert all(np.prod(launch.block) <= 1024 for launch in generated.launches)
    used = {i for launch in generated.launches for i in launch.arguments}
    assert used == set(range(len(generated.buffers)))
