"""The whole command on a small matmul, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil

from pruner.records.database import load
from pruner.records.journal import Journal


def command(tmp_path, *words):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "pruner.cli", "tune", "workload=GMM/0", *words],
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
