"""Workers never outlive their parent."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import psutil
import pytest
from tvm.ir import save_json

from pruner.measure.process import Worker, WorkerSetup
from pruner.measure.timing import TimingRule

_PARENT = """
    import sys, time
    from pathlib import Path
    from pruner.measure.process import Worker, WorkerSetup
    from pruner.measure.timing import TimingRule

    mod, target, long = (Path(name).read_text() for name in sys.argv[1:4])
    worker = Worker(WorkerSetup(mod, target, 1, TimingRule()))
    assert worker.connection.poll(120)
    worker.receive(0.0)
    worker.request("build", 1, long)
    time.sleep(1)
    print(worker.process.pid, flush=True)
    time.sleep(600)
"""


def test_a_worker_ends_with_its_parent_even_while_compiling(programs, tmp_path):
    files = []
    for name, value in [("mod", programs.copy), ("target", programs.target), ("long", programs.unrolled)]:
        files.append(tmp_path / name)
        files[-1].write_text(save_json(value))
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_PARENT), *map(str, files)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    )
    try:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        assert worker.cpu_percent(0.5) > 0  # compiling
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 10
        while worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    finally:
        parent.kill()
        parent.wait()


def test_a_worker_that_cannot_be_started_leaves_nothing(monkeypatch, tmp_path):
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened = psutil.Process().num_fds()
    with pytest.raises(BlockingIOError):
        Worker(WorkerSetup("", "", 1, TimingRule()))
    assert list(tmp_path.iterdir()) == []
    assert psutil.Process().num_fds() == opened
