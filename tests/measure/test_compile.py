"""Building without timing: results, failures, time-outs, and no compiler left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from tvm.ir import save_json
from tvm.target import Target

from pruner.errors import DeviceError
from pruner.measure.compile import CompileMeasurer
from pruner.measure.measurement import MeasureInterrupted
from pruner.measure.nvcc import compile_cuda
from pruner.workload import Task

A100 = Target("nvidia/nvidia-a100")
# Another number than that of tests that run at the same time.
NAP_S = f"600.{os.getpid()}"


@contextmanager
def compiling(mod, **settings):
    measurer = CompileMeasurer(task=Task("test", mod, A100), threads=1, **{"workers": 2, **settings})
    try:
        yield measurer
    finally:
        measurer.close()


@pytest.fixture
def slow_nvcc(nvcc, tmp_path, monkeypatch):
    """The real nvcc behind a script that takes minutes for a kernel that calls `nowhere`."""
    script = tmp_path / "bin" / "nvcc"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/bash\n"
        f'for word in "$@"; do [ -f "$word" ] && grep -q nowhere "$word" && sleep {NAP_S}; done\n'
        f'exec {nvcc} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def sleeping():
    """The slow compilers that run."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if process.info["cmdline"] == ["sleep", NAP_S]:
            found.append(process)
    return found


def until(true, seconds=30.0):
    """Waits until something holds; whether it does."""
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()


def test_what_programs_need_and_what_does_not_compile(nvcc, programs, cuda_programs):
    mods = [
        cuda_programs.shared(),
        programs.matmul(8),  # bound to no threads
        cuda_programs.undefined_call(),
        cuda_programs.two_kernels(),
    ]
    with compiling(mods[0]) as measurer:
        assert measurer.baseline() is None
        found = measurer.measure([programs.candidate(mod) for mod in mods])
    assert [m.failure for m in found] == [None, "build", "build", None]
    assert "bound" in found[1].message
    assert "nowhere" in found[2].message
    assert all(m.latency_s is None and m.spread_s is None and not m.run_s for m in found)
    for measurement, mod in ((found[0], mods[0]), (found[3], mods[3])):
        assert measurement.resources == compile_cuda(mod, A100).resources
        assert measurement.build_s > 0
    assert found[1].resources is None
    kernels = compile_cuda(mods[3], A100).kernels
    assert len(kernels) == 2
    assert found[3].resources.registers == max(kernel.resources.registers for kernel in kernels)


def test_a_slow_compiler_is_killed_and_costs_one_candidate(slow_nvcc, programs, cuda_programs, tmp_path):
    before = len(sleeping())
    mods = [cuda_programs.undefined_call(), cuda_programs.shared(), cuda_programs.shared()]
    with compiling(mods[1], build_timeout_s=8.0) as measurer:
        found = measurer.measure([programs.candidate(mod) for mod in mods])
        assert [m.failure for m in found] == ["timeout", None, None]
        assert "8 s" in found[0].message
        assert len(sleeping()) == before
    # Neither folders of the workers nor temporary files of nvcc.
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_what_was_compiled_survives_an_interrupted_batch(slow_nvcc, programs, cuda_programs):
    before = len(sleeping())
    mods = [cuda_programs.shared(), cuda_programs.undefined_call()]
    candidates = [programs.candidate(mod) for mod in mods]
    with compiling(mods[0], workers=1) as measurer:
        run = measurer._pool.run

        def interrupted(requests, *, timeout_s, told):
            def hear(index, reply, worker):
                told(index, reply, worker)
                # Ctrl-C while the next one compiles.
                threading.Timer(2.0, interrupt).start()

            def interrupt():
                until(lambda: len(sleeping()) > before)
                os.kill(os.getpid(), signal.SIGINT)

            run(requests, timeout_s=timeout_s, told=hear)

        measurer._pool.run = interrupted
        with pytest.raises(MeasureInterrupted) as caught:
            measurer.measure(candidates)
        measurer._pool.run = run
        (finished,) = caught.value.measurements
        assert finished.candidate is candidates[0]
        assert finished.resources is not None
        assert len(sleeping()) == before
        assert measurer.measure(candidates[:1])[0].failure is None


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"kind": "llvm", "num-cores": 2}, "kind is llvm.*measure=local"),
        ("nvidia/tesla-k80", "for sm_37; .*sm_80"),
    ],
)
def test_targets_that_cannot_be_compiled_for(nvcc, target, said):
    with pytest.raises(DeviceError, match=said):
        CompileMeasurer.check_target(Target(target))


_PARENT = """
import sys, time
from pathlib import Path
from pruner.measure.process import Worker, WorkerSetup
from pruner.measure.timing import TimingRule

mod, target = (Path(name).read_text() for name in sys.argv[1:3])
worker = Worker(WorkerSetup(mod, target, 1, TimingRule()))
assert worker.connection.poll(120)
worker.receive(0.0)
worker.request("compile", mod)
print("asked", flush=True)
time.sleep(600)
"""


def test_compilers_and_their_files_end_with_the_tuner(slow_nvcc, cuda_programs, tmp_path):
    before = len(sleeping())
    files = [tmp_path / "bin" / name for name in ("mod", "target")]
    for file, value in zip(files, (cuda_programs.undefined_call(), A100), strict=True):
        file.write_text(save_json(value))
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, *map(str, files)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"asked\n"
        assert until(lambda: len(sleeping()) > before)
        parent.kill()
        parent.wait()
        assert until(lambda: len(sleeping()) == before)
        assert until(lambda: [path.name for path in tmp_path.iterdir()] == ["bin"])
    finally:
        parent.kill()
        parent.wait()
