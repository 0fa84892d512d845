from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records.dataset import NO_ROW, Dataset, RecordedTask, object_column
from pruner.search.population import UNUSED
from pruner.search.space import Space
from pruner.workload import load_task

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
    changed = columns(
        3,
        sketch_ids=np.array([1, NO_ROW, 0]),
        traces=object_column([None, '[["GetSBlock"]]', None]),
        latency_s=np.array([1e-6, np.nan, 3e-6]),
        failure=np.array(["", "timeout", ""]),
        device=np.array(["a", "b", "a long name"]),
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
