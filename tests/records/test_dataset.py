from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import te
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records import storage
from pruner.records.convert import convert
from pruner.records.dataset import NO_ROW, Dataset, RecordedTask, object_column
from pruner.records.storage import DTYPES
from pruner.search.population import UNUSED
from pruner.search.space import Space
from pruner.workload import load_task, make_task
from tests.records.mutate import changed
from tests.records.records_util import made

TARGET = Target({"kind": "llvm", "num-cores": 2})


@pytest.fixture(scope="module")
def space() -> Space:
    return Space.of(load_task("GMM/0", TARGET))


def recorded(space: Space, sketches: list[str] | None = None) -> RecordedTask:
    names = [sketch.signature for sketch in space.sketches] if sketches is None else sketches
    return RecordedTask(space.task.name, space.task.mod, space.task.target, 2.0, tuple(names))


def columns(n: int, width: int = 3, **changed: Any) -> dict[str, Any]:
    """n records of the first task that ran."""
    return {
        "task": np.zeros(n, dtype=np.int64),
        "sketch_ids": np.zeros(n, dtype=np.int64),
        "decisions": np.ones((n, width), dtype=np.int64),
        "traces": object_column([None] * n),
        "latency_s": np.arange(1.0, n + 1.0),
        "spread_s": np.full(n, np.nan),
        "failure": np.array([""] * n),
        "cost_s": np.full(n, 0.5),
        "order": np.arange(n),
        "device": np.array(["cpu"] * n),
        **changed,
    }


def test_rows_find_their_space_again_whatever_its_order(space: Space) -> None:
    rows = space.sample(40, np.random.default_rng(0))
    names = [sketch.signature for sketch in space.sketches]
    turned = list(reversed(names))
    ids = len(names) - 1 - rows.sketch_ids
    wide = np.column_stack([rows.decisions, np.full(40, UNUSED)])  # another task was wider
    dataset = Dataset((recorded(space, turned),), **columns(40, sketch_ids=ids, decisions=wide))
    found = dataset.population(space)
    assert (found.hashes() == rows.hashes()).all()
    assert len(set(rows.sketch_ids)) > 1


def test_rows_of_another_space_are_refused(space: Space) -> None:
    with pytest.raises(ConfigError, match="another program"):
        Dataset((recorded(space, ["[]"]),), **columns(3)).population(space)
    traced = columns(3, sketch_ids=np.array([0, NO_ROW, 0]), traces=object_column([None, "[]", None]))
    dataset = Dataset((recorded(space),), **traced)
    with pytest.raises(ConfigError, match="1 records of GMM/0 have a trace"):
        dataset.population(space)
    assert len(dataset[dataset.sketch_ids != NO_ROW].population(space)) == 2


def test_records_are_selected_by_task_and_by_mask(space: Space) -> None:
    other = RecordedTask("other", space.task.mod, TARGET, sketches=("[]",))
    dataset = Dataset((recorded(space), other), **columns(4, task=np.array([0, 1, 1, 0])))
    assert dataset.of("other").latency_s.tolist() == [2.0, 3.0]
    assert dataset.of("other").tasks == (other,)
    assert dataset.of("other").task.tolist() == [0, 0]
    assert dataset[dataset.latency_s > 2].task.tolist() == [1, 0]
    with pytest.raises(ConfigError, match="GMM/0, other"):
        dataset.of("C2D/0")
    with pytest.raises(ConfigError, match="select with `of`"):
        dataset.population(space)


def test_columns_must_fit_together_and_do_not_change(space: Space) -> None:
    tasks = (recorded(space),)
    failed = {"latency_s": np.array([np.nan, 1.0]), "failure": np.array(["run", ""])}
    order = np.arange(2)
    dataset = Dataset(tasks, **columns(2, order=order, **failed))
    order[0] = 7
    assert dataset.order.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        dataset.latency_s[0] = 1.0
    for wrong, said in (
        ({"cost_s": np.zeros(3)}, "differ in length"),
        ({"task": np.array([0, 1])}, "none of the 1 tasks"),
        ({"sketch_ids": np.array([0, 3])}, "does not name"),
        ({"latency_s": np.array([np.nan, 1.0])}, "either a latency or a failure"),
        ({"failure": np.array(["run", ""])}, "either a latency or a failure"),
    ):
        with pytest.raises(ConfigError, match=said):
            Dataset(tasks, **columns(2, **wrong))


def test_a_saved_data_set_is_the_same_when_it_is_loaded(space: Space, tmp_path: Path) -> None:
    rows = space.sample(3, np.random.default_rng(0))
    changed = columns(
        3,
        sketch_ids=np.array([rows.sketch_ids[0], NO_ROW, rows.sketch_ids[2]]),
        decisions=rows.decisions,
        traces=object_column([None, '[[["GetSBlock", [], ["\u00fc", "main"], ["b0"]]], []]', None]),
        latency_s=np.array([1e-6, np.nan, 3e-6]),
        failure=np.array(["", "timeout", ""]),
        device=np.array(["a", "b", "a long n\u00e4me"]),
    )
    dataset = Dataset((recorded(space),), **changed)
    dataset.save(tmp_path / "set.npz")
    loaded = Dataset.load(tmp_path / "set.npz")
    for name, column in changed.items():
        np.testing.assert_array_equal(getattr(loaded, name), column)
    (task,) = loaded.tasks
    assert (task.id, task.weight, task.sketches) == ("GMM/0", 2.0, dataset.tasks[0].sketches)
    assert tvm_ffi.structural_equal(task.mod, space.task.mod)
    assert dict(task.target.export()) == dict(TARGET.export())
    whole = (tmp_path / "set.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.npz").touch()
    (tmp_path / "text.npz").write_text("latency")
    np.save(tmp_path / "array.npy", np.zeros(3))
    for path in ("cut.npz", "empty.npz", "text.npz", "array.npy", "missing.npz"):
        with pytest.raises(ConfigError, match="no data set"):
            Dataset.load(tmp_path / path)


def test_programs_of_other_block_names_are_two(space: Space) -> None:
    def task(block: str) -> RecordedTask:
        a = te.placeholder((8, 8), name="a")
        mod = make_task(
            te.create_prim_func([a, te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name=block)]), TARGET
        )
        return RecordedTask("one", mod.mod, TARGET)

    assert task("b").same_program(task("b"))
    # To TVM they are equal, and a trace that finds one block by its name does not find the other's.
    assert tvm_ffi.structural_equal(task("b").mod, task("c").mod)
    assert not task("b").same_program(task("c"))


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_one_long_text_takes_its_own_room_alone(space: Space, tmp_path: Path, suffix: str) -> None:
    n, path = 20_000, tmp_path / f"set{suffix}"
    long = json.dumps([[["GetSBlock", [], ["x" * 20_000, "main"], ["b0"]]], []])
    traced = columns(
        n,
        width=space.width,
        decisions=np.repeat(space.sample(1, np.random.default_rng(0)).decisions, n, axis=0),
        sketch_ids=np.array([NO_ROW] * n),
        traces=object_column([long, *["[[], []]"] * (n - 1)]),
    )
    dataset = Dataset((recorded(space),), **traced)
    tracemalloc.start()
    try:
        dataset.save(path)
        loaded = Dataset.load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert loaded.traces.tolist() == dataset.traces.tolist()
    assert peak < 100 << 20  # an array of texts would take 1.6 GB


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"latency_s": 0.0}, "latency_s of record 0 .* above 0 s"),
    ({"latency_s": -1.0}, "latency_s of record 0"),
    ({"latency_s": np.inf}, "latency_s of record 0"),
    ({"spread_s": -1.0}, "spread_s of record 0"),
    ({"cost_s": np.inf}, "cost_s of record 0"),
    ({"order": -1}, "order of record 0"),
    ({"decisions": 0}, "sketch . of task GMM/0.* decision form"),
    ({"decisions": 2**40}, "sketch . of task GMM/0.* decision form"),
    ({"sketch_ids": NO_ROW}, "trace of record 0: no JSON"),
    ({"sketch_ids": NO_ROW, "traces": "[[]]"}, "trace of record 0: trace form"),
    ({"sketch_ids": NO_ROW, "traces": '[[["Split", ["l0", 0], [], []]], []]'}, "split by no positive factor"),
]


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize(("change", "said"), HOSTILE)
def test_values_that_no_measurement_gives_are_refused(
    tmp_path: Path, change: dict[str, Any], said: str, suffix: str
) -> None:
    sound = made(3)
    stored = {name: getattr(sound, name).copy() for name in DTYPES}
    for name, value in change.items():
        stored[name][0] = value
    Dataset(sound.tasks, **stored).save(tmp_path / f"set{suffix}")
    with pytest.raises(ConfigError, match=f"set{suffix} is no sound data set: .*{said}"):
        Dataset.load(tmp_path / f"set{suffix}")


def tasks_of(path: Path) -> tuple[list[Any], dict[str, Any]]:
    text, stored = storage.read(path)
    return json.loads(text), stored


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": 7}, "id of a task is 7"),
        ({"weight": float("nan")}, "weight of task GMM/0 is nan"),
        ({"weight": -1}, "weight of task GMM/0 is -1"),
        ({"weight": 10**400}, "weight of task GMM/0 is 1000"),
        ({"sketches": ["nonsense"] * 9}, "sketch 0 of task GMM/0.* no JSON"),
        ({"sketches": ["[[]]"] * 9}, "instruction form"),
        ({"sketches": ['[["LoadAll", [], [], []]]'] * 9}, "unknown instruction"),
        ({"target": {"kind": "abacus"}}, "target of task GMM/0"),
        ({"module": "[" * 100_000}, "program of GMM/0 cannot be read: nesting too deep"),
        ({"module": None}, "program of GMM/0 is a NoneType"),
    ],
)
def test_hostile_descriptions_of_tasks_are_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "set.npz"
    made(3).save(path)
    tasks, stored = tasks_of(path)
    storage.write(path, json.dumps([{**tasks[0], **change}]), stored)
    with pytest.raises(ConfigError, match=said):
        Dataset.load(path)


def test_columns_of_other_types_and_files_of_other_formats_are_refused(
    tmp_path: Path, monkeypatch: Any
) -> None:
    path = tmp_path / "set.npz"
    made(3).save(path)
    tasks, stored = tasks_of(path)
    for name, column in (
        ("task", np.zeros(3)),
        ("order", np.array(["a", "b", "c"])),
        ("latency_s", np.ones((3, 1))),
        ("decisions", np.ones(3, dtype=np.int64)),
    ):
        storage.write(path, json.dumps(tasks), {**stored, name: column})
        with pytest.raises(ConfigError, match="no data set"):
            Dataset.load(path)
    for suffix in (".npz", ".parquet"):
        monkeypatch.setattr(storage, "FORMAT", 1)
        made(3).save(path.with_suffix(suffix))
        monkeypatch.undo()
        with pytest.raises(ConfigError, match="has format 1; 2 is read"):
            Dataset.load(path.with_suffix(suffix))


def test_a_hundred_damaged_data_sets_end_in_a_result_or_a_named_error(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    made(4).save(path)
    ends = {"refused": 0, "left out": 0, "written": 0}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        tasks, stored = tasks_of(path)
        part = rng.integers(3)
        if part == 0:
            tasks = changed(tasks, rng)
        elif part == 1:
            tasks[0]["module"] = json.dumps(changed(json.loads(tasks[0]["module"]), rng))
        else:
            name = list(DTYPES)[rng.integers(len(DTYPES))]
            flat = stored[name].reshape(-1)
            flat[rng.integers(len(flat))] = rng.choice([0, 1, -1, -9, 7, 2**40])
        damaged = tmp_path / "damaged.npz"
        storage.write(
            damaged, json.dumps(tasks), {**stored, "traces": stored["traces"].astype(str).astype(object)}
        )
        try:
            dataset = Dataset.load(damaged)
            left_out = convert(dataset, tmp_path / f"db{seed}")
        except ConfigError:
            ends["refused"] += 1
            continue
        ends["left out" if left_out else "written"] += 1
    assert ends["refused"] > 20
    assert ends["written"] > 10
