"""The whole command on a small matmul, in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import numpy as np
import psutil
import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.measure.nvcc import compile_cuda
from pruner.records.database import load
from pruner.records.journal import Journal
from pruner.workload import load_task


def command(tmp_path, *words):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "pruner", "tune", "workload=GMM/0", *words],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_whole_command(tmp_path):
    process = command(tmp_path, "trials=12", "batch=6", "work_dir=run")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["correct"] is True
    assert summary["best_s"] < summary["baseline_s"]
    assert "speed-up" in out
    tuned = load(tmp_path / "run")
    # NumPy's memory is aligned to 16 bytes; TVM's code needs 64.
    x, y, z = (
        np.frombuffer(bytearray(4 * 128**2 + 80), np.float32, 128**2, 16).reshape(1, 128, 128) for _ in "xyz"
    )
    x[:], y[:] = np.random.default_rng(0).random((2, 1, 128, 128), np.float32)
    tuned(x, y, z)
    np.testing.assert_allclose(z, x @ y, rtol=1e-4)
    # The printed line runs the result.
    line = next(text for text in out.splitlines() if text.startswith("Run the result: "))
    done = subprocess.run(
        line.removeprefix("Run the result: ").replace("python ", f"{sys.executable} ", 1),
        shell=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_control_c_finishes_the_batch_and_reports(tmp_path):
    process = command(tmp_path, "trials=100000", "batch=4", "work_dir=run")
    journal = tmp_path / "run" / "journal.jsonl"
    deadline = time.monotonic() + 120
    while not (journal.exists() and '"round"' in journal.read_text()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    contents = Journal.read(journal)
    assert contents.end.reason == "interrupted"
    assert len(contents.trials) % 4 == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["trials"] == len(contents.trials)
    assert summary["correct"] is True
    assert "Traceback" not in err


def test_a_second_control_c_and_a_closed_pipe_lose_nothing(tmp_path):
    process = command(tmp_path, "trials=100000", "batch=4", "work_dir=run")
    journal = tmp_path / "run" / "journal.jsonl"
    deadline = time.monotonic() + 120
    process.stdout.readline()
    process.stdout.close()
    while not (journal.exists() and '"round"' in journal.read_text()):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = psutil.Process(process.pid).children()
    # Later ones come while the report is written.
    for _ in range(6):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert process.wait(timeout=60) == 130
    err = process.stderr.read()
    process.stderr.close()
    assert "Traceback" not in err
    contents = Journal.read(journal)
    assert contents.end.reason == "interrupted"
    assert len(contents.trials) >= 4
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["trials"] == len(contents.trials)
    assert load(tmp_path / "run").latency_s == contents.best().latency_s
    assert not [worker for worker in workers if worker.is_running()]


def test_the_whole_command_without_timing(tmp_path, nvcc):
    process = command(
        tmp_path,
        "device=a100-40g",
        "measure=compile",
        "trials=6",
        "batch=3",
        "draft.explored=500",
        "work_dir=run",
    )
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "adapt=frozen" in out
    assert re.search(r"round 2  trials 6/6  compiled 6  .* registers", out)
    assert "Nothing was timed" in out
    assert str(tmp_path / "run" / "curve.csv") in out
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "journal.jsonl",
        "curve.csv",
        "curve.png",
        "summary.json",
    }
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["baseline_s"], summary["best_s"], summary["correct"]) == (None, None, None)
    assert (summary["trials"], summary["failed"]) == (6, 0)
    contents = Journal.read(tmp_path / "run" / "journal.jsonl")
    assert contents.end.best is None
    assert contents.header.settings["adapt"]["_target_"].endswith("Frozen")
    # The drafted programs come in the draft's order, apart from the random share.
    drafted = [trial.draft_s for trial in contents.trials if trial.draft_s is not None]
    assert drafted
    # What the journal holds is what its schedule needs.
    target = Target(contents.header.target)
    task = load_task("GMM/0", target)
    for trial in contents.trials[::3]:
        sch = Schedule(task.mod)
        Trace.apply_json_to_schedule(trial.trace, sch)
        assert trial.resources == asdict(compile_cuda(sch.mod, target).resources)
    most = max(trial.resources["registers"] for trial in contents.trials)
    assert summary["resources"]["registers"]["high"] == most
    with pytest.raises(ConfigError, match="measure=compile"):
        load(tmp_path / "run")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["device=a100-40g"], "measure=compile"),
        (["target=cuda"], "measure=compile"),
        (["device=a100-40g", "target=llvm"], "leave target out"),
        (["device=k80", "measure=compile"], "sm_37"),
        (["measure=compile"], "device=a100-40g"),
    ],
)
def test_a_gpu_that_cannot_be_used_ends_before_any_work(tmp_path, nvcc, words, said):
    if tvm.cuda(0).exist:
        pytest.skip("this machine has a GPU")
    out, err = command(tmp_path, *words, "work_dir=run").communicate(timeout=120)
    assert said in err
    assert err.startswith("pruner: ")
    assert err.count("\n") == 1  # no warning of TVM's, no traceback
    assert out == ""
    assert list(tmp_path.iterdir()) == []
