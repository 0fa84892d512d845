"""Databases of old and of today's TVM: what is read, and as what."""

import csv
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.database import JSONDatabase, Workload
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records.database import plain
from pruner.records.dataset import NO_ROW, RecordedTask
from pruner.records.inspection import task_lines
from pruner.records.metaschedule import read_metaschedule
from pruner.records.old_target import device_of, todays_target
from pruner.records.spaces import decided
from pruner.search.sketch import Sketch
from pruner.workload import make_task
from tests.records.old_database import (
    DENSE,
    FLATTEN,
    FOLDER,
    RECORDS,
    SOFTMAX,
    WORKLOADS,
    flatten,
    lines,
    records,
    write,
)

__all__ = ["flatten"]
CPU = Target({"kind": "llvm", "num-cores": 2})
DATA = os.environ.get("PRUNER_DATA", "")


def failed(record: Any) -> bool:
    return not record[1][1] or record[1][1][0] >= 1e9


def replayed(task: RecordedTask, sketch: int, row: np.ndarray) -> Schedule:
    schedule = Schedule(task.mod)
    Trace.apply_json_to_schedule(decided(task, sketch, row), schedule)
    return schedule


def test_the_excerpt_is_read_whole() -> None:
    dataset, report = read_metaschedule(FOLDER)
    recorded = [json.loads(line) for line in lines(RECORDS)]
    assert (report.seen, report.skipped, len(dataset)) == (len(recorded), {}, len(recorded))
    assert dataset.devices == ("cuda sm_80",)
    assert (dataset.failure == "run").sum() == sum(map(failed, recorded))
    with (FOLDER / "tasks.csv").open() as file:
        weights = {row["task"]: float(row["weight"]) for row in csv.DictReader(file)}
    assert {task.id: task.weight for task in dataset.tasks} == weights
    for task in weights:
        mine = dataset.of(task)
        theirs = [record for record in recorded if str(record[0]) == task]
        means = [math.nan if failed(record) else np.mean(record[1][1]) for record in theirs]
        np.testing.assert_allclose(mine.latency_s, means)
        assert (np.diff(mine.order) > 0).all()
        assert mine.tasks[0].target.attrs["max_shared_memory_per_block"] == 49152


def test_rows_are_the_recorded_decisions_and_tvm_replays_them() -> None:
    dataset, _ = read_metaschedule(FOLDER)
    for task in ("0", "1", "3", "4"):
        mine = dataset.of(task)
        theirs = [json.loads(line) for line in lines(RECORDS) if line.startswith(f"[{task},")]
        assert (mine.sketch_ids != NO_ROW).all()
        for position in range(0, len(mine), 11):
            trace = theirs[position][1][0]
            cut = [instruction[0] for instruction in trace[0]].index("EnterPostproc")
            values = [value for number, value in sorted(trace[1]) if number < cut]
            flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
            row = mine.decisions[position]
            assert row[: len(flat)].tolist() == flat
            schedule = replayed(mine.tasks[0], int(mine.sketch_ids[position]), row)
            sketch = Sketch.of(schedule.trace)
            assert sketch.signature == mine.tasks[0].sketches[mine.sketch_ids[position]]
            assert sketch.row(sketch.trace).tolist() == flat


def test_a_task_of_which_all_is_skipped_has_a_line(tmp_path: Path) -> None:
    record = records(FLATTEN)[0]
    record[0], record[1][1] = 0, [-1.0]
    folder = write(tmp_path / "db", lines(WORKLOADS)[FLATTEN : FLATTEN + 1], [json.dumps(record)])
    (line,) = task_lines(read_metaschedule(folder))
    assert (line.name, line.records, line.valid, line.best_s) == ("0", 1, 0, None)
    assert line.skipped == {"run time negative": 1}


def test_failures_are_records() -> None:
    valid, marked = records(DENSE)[0], records(DENSE)[-1]
    assert failed(marked)
    dataset, _ = read_metaschedule(FOLDER)
    dense = dataset.of(str(DENSE))
    assert set(dense.failure[np.isnan(dense.latency_s)]) == {"run"}
    assert not failed(valid)


def test_blank_and_comment_lines_count_for_nothing(tmp_path: Path) -> None:
    workloads, recorded = lines(WORKLOADS)[FLATTEN:], [json.dumps(r) for r in records(SOFTMAX)[:4]]
    shifted = [line.replace(f"[{SOFTMAX},", f"[{SOFTMAX - FLATTEN},", 1) for line in recorded]
    folder = write(tmp_path / "db", ["# c", "", *workloads], ["", shifted[0], "# c", *shifted[1:], ""])
    dataset, report = read_metaschedule(folder)
    assert (report.seen, report.skipped) == (4, {})
    assert [task.id for task in dataset.tasks] == [str(SOFTMAX - FLATTEN)]


def test_a_workload_that_stands_twice_is_one_task(tmp_path: Path) -> None:
    line = lines(WORKLOADS)[FLATTEN]
    recorded = records(FLATTEN)[:4]
    for i, record in enumerate(recorded):
        record[0] = i % 2
    folder = write(tmp_path / "db", [line, line], [json.dumps(record) for record in recorded])
    dataset, _ = read_metaschedule(folder)
    assert ([task.id for task in dataset.tasks], len(dataset)) == (["0"], 4)


def test_workloads_that_differ_in_the_names_of_blocks_are_two_tasks(tmp_path: Path) -> None:
    workloads, recorded = [], []
    a = te.placeholder((8, 8), name="a")
    for i, block in enumerate(("b", "c")):
        program = te.create_prim_func([a, te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name=block)])
        mod = make_task(program, CPU).mod
        workloads.append(json.dumps(plain(Workload(mod).as_json())))
        arguments = [plain(info.as_json()) for info in ArgInfo.from_entry_func(mod, True)]
        trace = [[["GetSBlock", [], [block, "main"], ["b0"]]], []]
        recorded.append(json.dumps([i, [trace, [1e-3], plain(CPU.export()), arguments]]))
    dataset, report = read_metaschedule(write(tmp_path / "db", workloads, recorded))
    assert (report.skipped, len(dataset)) == ({}, 2)
    assert [task.id for task in dataset.tasks] == ["0", "1"]


def test_an_unreadable_workload_costs_its_own_records_only(tmp_path: Path) -> None:
    workloads = lines(WORKLOADS)[FLATTEN:]
    recorded = [*records(FLATTEN)[:2], *records(SOFTMAX)[:2]]
    for record in recorded:
        record[0] -= FLATTEN
    for broken in ("[]", '["1"]', '["x", "AAAA"]', workloads[0][:-40], "{"):
        folder = write(tmp_path / "db", [broken, *workloads[1:]], [json.dumps(record) for record in recorded])
        dataset, report = read_metaschedule(folder)
        assert report.skipped == {"workload unreadable": 2}
        assert ([task.id for task in dataset.tasks], len(dataset)) == (["2"], 2)
    with pytest.raises(ConfigError, match=r"no workload that can be read.*line 1"):
        read_metaschedule(write(tmp_path / "db", ["[]"], []))
    with pytest.raises(ConfigError, match="has no database_workload"):
        read_metaschedule(tmp_path)


def test_records_of_two_targets_are_of_two_devices(tmp_path: Path) -> None:
    recorded = records(FLATTEN)[:4]
    for i, record in enumerate(recorded):
        record[0] = 0
        if i >= 2:
            record[1][2] = {**record[1][2], "arch": "sm_86", "some_old_option": 3}
    folder = write(
        tmp_path / "db", lines(WORKLOADS)[FLATTEN:][:1], [json.dumps(record) for record in recorded]
    )
    dataset, _ = read_metaschedule(folder)
    assert dataset.devices == ("cuda sm_80", "cuda sm_86")
    assert [len(dataset.of(task.id).devices) for task in dataset.tasks] == [1, 1]
    named, _ = read_metaschedule(folder, device="mine")
    assert named.devices == ("mine", "mine (cuda sm_86)")


def test_targets_that_say_the_same_of_the_machine_are_numbered(tmp_path: Path) -> None:
    recorded = records(FLATTEN)[:4]
    for i, record in enumerate(recorded):
        record[0] = 0
        record[1][2] = {**record[1][2], "max_threads_per_block": (1024, 512, 256, 512)[i]}
    folder = write(
        tmp_path / "db", lines(WORKLOADS)[FLATTEN:][:1], [json.dumps(record) for record in recorded]
    )
    dataset, report = read_metaschedule(folder)
    assert report.skipped == {}
    assert [task.id for task in dataset.tasks] == ["0", "0 on cuda sm_80 #2", "0 on cuda sm_80 #3"]
    assert dataset.devices == ("cuda sm_80", "cuda sm_80 #2", "cuda sm_80 #3")
    assert [len(dataset.of(task.id)) for task in dataset.tasks] == [1, 2, 1]


def test_a_database_of_today_is_read(go: Any, tmp_path: Path) -> None:
    go()
    folder = tmp_path / "run"
    dataset, report = read_metaschedule(folder)
    written = JSONDatabase(work_dir=str(folder)).get_all_tuning_records()
    assert report.skipped == {}
    np.testing.assert_allclose(sorted(dataset.latency_s), sorted(float(r.run_secs[0]) for r in written))
    best = int(np.argmin(dataset.latency_s))
    schedule = replayed(dataset.tasks[0], int(dataset.sketch_ids[best]), dataset.decisions[best])
    fastest = min(written, key=lambda record: float(record.run_secs[0]))
    theirs = Sketch.of(fastest.trace)
    assert Sketch.of(schedule.trace).row(schedule.trace.simplified(True)).tolist() == (
        theirs.row(theirs.trace).tolist()
    )
    [line] = (folder / WORKLOADS).read_text().splitlines()
    (folder / WORKLOADS).write_text(line.replace(json.loads(line)[0], "12345"))
    with pytest.raises(ConfigError, match="its hash is 12345"):
        read_metaschedule(folder)


OLD_TARGETS = [
    ("cuda -arch=sm_75 -max_threads_per_block=1024", "cuda sm_75"),
    ("nvidia/nvidia-a100", "cuda sm_80"),
    ({"kind": "llvm", "mcpu": "skylake", "num-cores": 8, "link-params": 0}, "llvm skylake 8 cores"),
    ({"kind": "metal", "keys": ["metal", "gpu"], "tag": "", "host": {"kind": "llvm", "tag": ""}}, "metal"),
]


@pytest.mark.parametrize(("recorded", "name"), OLD_TARGETS)
def test_old_targets_become_targets_of_today_and_name_a_device(recorded: Any, name: str) -> None:
    assert device_of(todays_target(recorded)) == name


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="PRUNER_DATA does not say where the measured data lies")
@pytest.mark.parametrize(
    ("name", "tasks", "seen", "failures"), [("a100-resnet34", 20, 20089, 4639), ("mlc-metal", 31, 31, 0)]
)
def test_every_record_of_the_published_databases_has_a_row(
    name: str, tasks: int, seen: int, failures: int
) -> None:
    dataset, report = read_metaschedule(Path(DATA) / "metaschedule" / name)
    assert (len(dataset.tasks), report.seen, report.skipped) == (tasks, seen, {})
    assert (dataset.failure != "").sum() == failures
    rng = np.random.default_rng(0)
    for position in rng.choice(len(dataset), min(60, len(dataset)), replace=False).tolist():
        task, row = dataset.tasks[dataset.task[position]], dataset.decisions[position]
        schedule = replayed(task, int(dataset.sketch_ids[position]), row)
        sketch = Sketch.of(schedule.trace)
        assert sketch.row(sketch.trace).tolist() == row[: sketch.width].tolist()
