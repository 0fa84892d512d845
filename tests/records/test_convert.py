import json
import sys

import numpy as np
import pytest
from tvm import te
from tvm.s_tir.meta_schedule.database import JSONDatabase

from pruner.errors import ConfigError
from pruner.records import storage
from pruner.records.convert import convert
from pruner.records.dataset import NO_ROW, Dataset, RecordedTask, object_column
from pruner.records.read import read
from pruner.workload import make_task
from tests.records.records_util import TARGET, assert_equal, made, untranslated


@pytest.fixture(scope="module")
def two_tasks():
    """Of two programs, the records of the second measured first."""
    return Dataset.concat([made(5), made(4, name="DEP/0")])


def test_a_database_gives_the_records_back(two_tasks, tmp_path):
    assert convert(two_tasks, tmp_path / "db") == {}
    again, report = read(tmp_path / "db", device="cpu")
    assert (report.seen, report.skipped) == (9, {})
    assert [task.id for task in again.tasks] == ["0", "1"]
    named = Dataset(
        tuple(
            type(task)(str(i), task.mod, task.target, 1.0, task.sketches)
            for i, task in enumerate(two_tasks.tasks)
        ),
        **{name: getattr(two_tasks, name) for name in storage.DTYPES},
    )
    assert_equal(again, named, but=("order",))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db"]


def test_tvm_finds_the_best_program_in_a_database(two_tasks, tmp_path):
    convert(two_tasks, tmp_path / "db")
    database = JSONDatabase(work_dir=str(tmp_path / "db"))
    for task in two_tasks.tasks:
        best = float(np.nanmin(two_tasks.of(task.id).latency_s))
        record = database.query_tuning_record(task.mod, task.target, "main")
        assert float(record.run_secs[0]) == pytest.approx(best)
        # Post-processed, as TVM's own are: its outer loops are parallel.
        assert "T.parallel" in database.query_schedule(task.mod, task.target, "main").mod.script()


@pytest.mark.parametrize("name", ["set.parquet", "set.npz"])
def test_a_file_gives_the_records_back(two_tasks, tmp_path, name):
    dataset = untranslated(Dataset.concat([two_tasks, made(3, device="another")]), 2)
    assert convert(dataset, tmp_path / name) == {}
    again, report = read(tmp_path / name)
    assert (report.seen, report.skipped) == (12, {})
    assert_equal(again, dataset)
    assert again.sketch_ids.tolist() == dataset.sketch_ids.tolist()
    assert [task.weight for task in again.tasks] == [2.0, 2.0]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_empty_data_set_survives_parquet(tmp_path):
    empty = made(2)[:0]
    empty.save(tmp_path / "none.parquet")
    assert_equal(Dataset.load(tmp_path / "none.parquet"), empty)


def test_a_query_never_mixes_machines(tmp_path):
    both = Dataset.concat([made(4, device="a"), made(4, device="b", seed=1)])
    assert len(both.tasks) == 1
    assert both.devices == ("a", "b")
    assert both.on("b").latency_s.tolist()[0] == made(4, seed=1).latency_s[0]
    assert set(both.on("a").device) == {"a"}
    with pytest.raises(ConfigError, match="there are a, b"):
        both.on("c")
    for dataset, said in (
        (both, "these are of a, b"),
        (made(2, device=""), r"these are of \(unnamed\)"),
        (both[:0], "no records"),
    ):
        with pytest.raises(ConfigError, match=said):
            convert(dataset, tmp_path / "db")
    assert list(tmp_path.iterdir()) == []


def test_what_tvm_refuses_is_left_out_and_counted(tmp_path):
    ((task, reasons),) = convert(untranslated(made(4), 2), tmp_path / "db").items()
    ((reason, count),) = reasons.items()
    assert (task, count) == ("GMM/0", 1)
    assert "nowhere" in reason
    lines = (tmp_path / "db" / "database_tuning_record.json").read_text().splitlines()
    times = [json.loads(line)[1][1][0] for line in lines]
    assert times == [1e10 if t != t else t for t in made(4).latency_s[[0, 1, 3]].tolist()]
    with pytest.raises(ConfigError, match="none of the 1 programs"):
        convert(untranslated(made(1), 0), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_task_that_cannot_be_tuned_costs_its_own_records_only(tmp_path):
    a = te.placeholder((0, 4), name="a")
    empty = make_task(te.create_prim_func([a, te.compute((0, 4), lambda i, j: a[i, j] + 1.0)]), TARGET)
    columns = {name: getattr(made(2), name) for name in storage.DTYPES}
    columns |= {"sketch_ids": np.full(2, NO_ROW), "traces": object_column(["[[], []]"] * 2)}
    untunable = Dataset((RecordedTask("empty", empty.mod, TARGET),), **columns)
    left_out = convert(Dataset.concat([untunable, made(3)]), tmp_path / "db")
    ((reason, count),) = left_out.pop("empty").items()
    assert count == 2
    assert "runs zero times" in reason
    assert left_out == {}
    assert len((tmp_path / "db" / "database_tuning_record.json").read_text().splitlines()) == 3


def test_rows_that_tvm_must_not_be_given_are_left_out_with_the_reason(tmp_path):
    whole = made(6)
    columns = {name: getattr(whole, name).copy() for name in storage.DTYPES}
    columns["decisions"][:3] = 0
    columns["sketch_ids"][4], columns["traces"][4] = NO_ROW, "no JSON"
    ((task, reasons),) = convert(Dataset(whole.tasks, **columns), tmp_path / "db").items()
    assert task == "GMM/0"
    assert sum(reasons.values()) == 4
    assert reasons.pop("no JSON") == 1
    assert all("factor" in reason or reason == "decision form" for reason in reasons)


def test_nothing_is_written_over_or_by_halves(tmp_path, monkeypatch):
    dataset = made(3)
    (tmp_path / "there").mkdir()
    for out, said in (
        ("there", "exists already"),
        ("nowhere/db", "no folder"),
        ("records.json", "no kind of file"),
    ):
        with pytest.raises(ConfigError, match=said):
            convert(dataset, tmp_path / out)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pruner.records.convert._write_records", fail)
    monkeypatch.setattr("pruner.records.storage._write_npz", fail)
    for out in ("db", "set.npz"):
        with pytest.raises(ConfigError, match="No space left"):
            convert(dataset, tmp_path / out)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_without_pyarrow_parquet_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="pip install pyarrow"):
        convert(made(2), tmp_path / "set.parquet")
    with pytest.raises(ConfigError, match="npz"):
        Dataset.load(tmp_path / "set.parquet")


def test_damaged_parquet_files_are_refused(tmp_path):
    whole = tmp_path / "whole.parquet"
    made(30).save(whole)
    data = bytearray(whole.read_bytes())
    rng = np.random.default_rng(0)
    damaged = tmp_path / "damaged.parquet"
    outcomes = set()
    for _ in range(100):
        changed = data.copy()
        for place in rng.integers(len(data), size=8):
            changed[place] = rng.integers(256)
        damaged.write_bytes(changed[: rng.integers(len(data)) if rng.random() < 0.3 else None])
        try:
            outcomes.add(type(Dataset.load(damaged)))
        except ConfigError:
            outcomes.add(ConfigError)
    assert ConfigError in outcomes
    made(30).save(whole)


def test_a_file_that_claims_to_be_huge_is_refused(tmp_path, monkeypatch):
    for name in ("set.parquet", "set.npz"):
        made(30).save(tmp_path / name)
        monkeypatch.setattr(storage, "BYTES", 1000)
        with pytest.raises(ConfigError, match="of memory"):
            Dataset.load(tmp_path / name)
        monkeypatch.undo()
