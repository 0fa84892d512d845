import os

import pytest

from pruner.files import write_whole


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
