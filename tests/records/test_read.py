import gzip
import os
import time
from pathlib import Path

import pytest

from pruner.errors import ConfigError
from pruner.records import reading
from pruner.records.convert import convert
from pruner.records.read import read
from tests.records.records_util import assert_equal, made

DATA = os.environ.get("PRUNER_DATA", "")


@pytest.fixture
def data():
    """The folder of public records."""
    if not DATA:
        pytest.skip("PRUNER_DATA names no folder of public records (docs/data.md)")
    return Path(DATA)


def test_a_folder_is_read_whatever_it_holds(tmp_path):
    (tmp_path / "b").mkdir()
    convert(made(3), tmp_path / "b" / "db")
    made(4, name="DEP/0", device="x").save(tmp_path / "a.parquet")
    (tmp_path / "README.md").write_text("# records\n\nof ours\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / ".hidden.parquet").write_text("no data set")
    (tmp_path / "loop").symlink_to(tmp_path)
    dataset, report = read(tmp_path, device="y")
    assert report.seen == len(dataset) == 7
    assert [task.id for task in dataset.tasks] == ["DEP/0", "0"]
    assert dataset.devices == ("x", "y")
    assert_equal(dataset.of("DEP/0"), made(4, name="DEP/0", device="x"))
    # A source that is given twice is read once.
    assert len(read([tmp_path, tmp_path / "a.parquet"]).dataset) == 7


def test_packed_databases_are_read(tmp_path):
    convert(made(3), tmp_path / "db")
    plain = read(tmp_path / "db").dataset
    for path in (tmp_path / "db").iterdir():
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert_equal(read(tmp_path / "db").dataset, plain)


def test_tasks_of_one_id_are_told_apart_by_their_folders(tmp_path):
    for folder, name in (("x", "GMM/0"), ("y", "DEP/0")):
        (tmp_path / folder).mkdir()
        convert(made(3, name=name), tmp_path / folder / "db")
    dataset, _ = read(tmp_path, device="cpu")
    assert [task.id for task in dataset.tasks] == ["x/db/0", "y/db/0"]
    for id, name in (("x/db/0", "GMM/0"), ("y/db/0", "DEP/0")):
        assert dataset.of(id).tasks[0].same_program(made(1, name=name).tasks[0])
    # The same program is one task, and what was read later was measured later.
    again = read([tmp_path / "x" / "db", tmp_path / "x"], device="cpu").dataset
    assert [task.id for task in again.tasks] == ["0"]
    made(2).save(tmp_path / "1.npz")
    made(2, seed=1).save(tmp_path / "2.npz")
    joined = read([tmp_path / "2.npz", tmp_path / "1.npz"]).dataset
    assert len(joined.tasks) == 1
    assert joined.order.tolist() == [0, 1, 2, 3]
    assert joined.latency_s[0] == made(2, seed=1).latency_s[0]


@pytest.mark.parametrize("name", ["missing", "empty", "text.txt", "list.json", "set.parquet", "set.npz"])
def test_what_holds_no_records_is_refused(tmp_path, name):
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    (tmp_path / "text.txt").write_text("some\ntext\n")
    (tmp_path / "list.json").write_text("[1, 2]\n")
    (tmp_path / "set.parquet").write_text("no table")
    (tmp_path / "set.npz").write_text("no archive")
    with pytest.raises(ConfigError, match=name):
        read(tmp_path / name)


def test_a_file_is_what_its_first_telling_line_says(tmp_path):
    lines = ["[]", "{}", "null", "half a l", *['{"i": [], "r": []}'] * 10]
    (tmp_path / "log.json").write_text("\n".join(lines))
    (tmp_path / "notes.json").write_text("\n".join(lines[:4]))
    dataset, report = read(tmp_path)
    assert (len(dataset), report.seen, sum(report.skipped.values())) == (0, 14, 14)


def test_a_file_with_a_line_that_no_record_has_is_none_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LINE_BYTES", 1000)
    made(3).save(tmp_path / "set.npz")
    (tmp_path / "web.json").write_text("1" * 2000)
    assert len(read(tmp_path).dataset) == 3
    with pytest.raises(ConfigError, match="line 1 is longer than"):
        read(tmp_path / "web.json")


def test_public_records_of_two_gpus_are_told_apart(data):
    dataset, report = read([data / "ansor/a100/relu.json.gz", data / "ansor/rtx3080/relu.json.gz"])
    assert [task.id for task in dataset.tasks] == ["a100/relu", "rtx3080/relu"]
    assert (report.seen, len(dataset), len(dataset.devices)) == (14, 14, 2)
    assert all(len(set(dataset.of(task.id).device)) == 1 for task in dataset.tasks)


@pytest.mark.slow
def test_parquet_loads_ten_times_faster_than_the_source(data, tmp_path):
    def took(path):
        start = time.process_time()
        found = read(path).dataset
        return time.process_time() - start, found

    source = data / "metaschedule/a100-resnet34"
    slow, dataset = took(source)
    dataset.save(tmp_path / "set.parquet")
    fast, again = min((took(tmp_path / "set.parquet") for _ in range(3)), key=lambda each: each[0])
    assert_equal(again, dataset)
    assert slow > 10 * fast
