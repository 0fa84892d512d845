import os
import subprocess
import sys

import pytest

from pruner.errors import ConfigError
from pruner.files import alone_in, one_writer, write_whole


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    write_whole(path, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]
    assert path.read_text() == "old"


def test_a_folder_is_held_by_one_process_until_it_ends(tmp_path):
    hold = (
        "import sys; from pathlib import Path; from pruner.files import alone_in\n"
        "with alone_in(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="another process works in"), alone_in(tmp_path):
            pass
        other.kill()
    with alone_in(tmp_path):
        pass
    with alone_in(tmp_path):
        assert not list(tmp_path.iterdir())


def test_one_process_at_a_time_is_a_writer(tmp_path):
    path = tmp_path / "count"
    path.write_text("0")
    count = (
        "import sys; from pathlib import Path; from pruner.files import one_writer, write_whole\n"
        "path = Path(sys.argv[1])\n"
        "for _ in range(200):\n"
        "    with one_writer(path): write_whole(path, str(int(path.read_text()) + 1))"
    )
    started = [subprocess.Popen([sys.executable, "-c", count, path]) for _ in range(2)]
    assert [process.wait(timeout=60) for process in started] == [0, 0]
    with one_writer(path):
        assert path.read_text() == "400"
