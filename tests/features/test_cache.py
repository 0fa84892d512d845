"""Kept features equal fresh ones, and what they depend on is all that they are found by."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tvm import te
from tvm.target import Target

from pruner.analyzer.device import Device
from pruner.errors import ConfigError, RejectedError
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.features.cache import CachedExtractor
from pruner.features.make import EXTRACTORS, make_extractors
from pruner.features.symbols import SymbolFeatures
from pruner.measure.clock import Clock, stage
from pruner.search.candidate import Candidate, TraceCandidate
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import load_task, make_task
from tests.analyzer import analyzer_util, gpu_util


class Counting(FeatureExtractor):
    """A ragged feature of the decisions, which notes how many candidates it was asked for."""

    name = "counting"
    version = 1
    columns = ("a", "b", "c")

    def __init__(self, inputs: Mapping[str, object] | None = None, seconds: float = 0.0) -> None:
        self._inputs = {} if inputs is None else inputs
        self._seconds = seconds
        self.asked: list[int] = []

    @property
    def inputs(self) -> Mapping[str, object]:
        return self._inputs

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        self.asked.append(len(candidates))
        with stage("materialise"):
            time.sleep(3 * self._seconds * len(candidates))
        time.sleep(self._seconds * len(candidates))
        rows = [[np.float32(c.row.sum() * k) for k in (1, 2, 3)] for c in candidates]
        counts = [1 + int(c.row.sum()) % 4 for c in candidates]
        values = np.repeat(np.array(rows, dtype=np.float32).reshape(-1, 3), counts, axis=0)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return FeatureBatch(values, offsets, self.name, self.version)


def population(n: int = 8, seed: int = 0, workload: str = "GMM/0") -> Population:
    space = analyzer_util.space(workload)
    return space.unique(space.sample(4 * n, np.random.default_rng(seed)))[:n]


def same(one: FeatureBatch, other: FeatureBatch) -> bool:
    return (
        np.array_equal(one.values, other.values)
        and np.array_equal(one.offsets, other.offsets)
        and (one.name, one.version) == (other.name, other.version)
    )


def only_file(folder: Path) -> Path:
    [path] = folder.glob("*.npz")
    return path


@pytest.mark.parametrize("name", sorted(EXTRACTORS))
def test_kept_features_equal_fresh_ones(name: str, tmp_path: Path) -> None:
    [plain] = make_extractors([name], gpu_util.DEVICE).values()
    cached = CachedExtractor(plain, tmp_path)
    rows = gpu_util.sample("C2D/0", 6)
    expected = plain.extract(rows)
    assert same(cached.extract(rows[:4]), expected.take(np.arange(4)))
    order = np.array([5, 0, 3, 0, 4])
    assert same(cached.extract(rows[order]), expected.take(order))
    assert same(cached.extract([rows[i] for i in order.tolist()]), expected.take(order))
    assert (cached.columns, cached.rows, cached.materialised) == (
        plain.columns,
        plain.rows,
        plain.materialised,
    )
    assert cached.explain(cached.columns[0]) == plain.explain(plain.columns[0])
    assert same(cached.extract([]), plain.extract([]))


def test_only_what_is_missing_is_extracted_in_one_call(tmp_path: Path) -> None:
    plain = Counting()
    cached = CachedExtractor(plain, tmp_path)
    rows = population()
    cached.extract(rows[:3])
    assert same(cached.extract(rows), Counting().extract(rows))
    cached.extract(list(rows)[::-1])
    traces = [TraceCandidate(rows.space.task, candidate.decided) for candidate in rows]
    assert same(cached.extract(traces), Counting().extract(rows))
    assert plain.asked == [3, 5]
    other = Counting()
    assert same(CachedExtractor(other, tmp_path).extract(rows), Counting().extract(rows))
    assert other.asked == []


def test_tasks_are_told_apart_and_mixed_candidates_keep_their_order(tmp_path: Path) -> None:
    plain = Counting()
    cached = CachedExtractor(plain, tmp_path)
    a, b = population(4), population(4, workload="NRM/0")
    mixed = [candidate for pair in zip(a, b, strict=True) for candidate in pair]
    expected = Counting().extract(mixed)
    assert same(cached.extract(mixed), expected)
    assert same(cached.extract(mixed), expected)
    assert plain.asked == [4, 4]
    assert len(list(tmp_path.glob("*.npz"))) == 2


def test_the_same_program_of_another_space_is_found_again(tmp_path: Path) -> None:
    rows = population(5)
    CachedExtractor(Counting(), tmp_path).extract(rows)
    again = Space.of(load_task("GMM/0", analyzer_util.TARGET))
    plain = Counting()
    found = CachedExtractor(plain, tmp_path).extract(Population(again, rows.sketch_ids, rows.decisions))
    assert same(found, Counting().extract(rows))
    assert plain.asked == []


@pytest.mark.parametrize(
    "changed", ["version", "columns", "inputs", "module", "target", "class", "decisions"]
)
def test_whatever_changes_is_extracted_again(changed: str, tmp_path: Path) -> None:
    rows = population(5)
    CachedExtractor(Counting(), tmp_path).extract(rows)

    class Another(Counting):
        pass

    plain = Another() if changed == "class" else Counting({"cores": 3} if changed == "inputs" else None)
    if changed == "version":
        plain.version = 2
    if changed == "columns":
        plain.columns = ("a", "b", "d")
    space = rows.space
    if changed == "module":
        space = Space(load_task("GMM/1", analyzer_util.TARGET), space.sketches, space.materialiser)
    if changed == "target":
        target = Target({"kind": "llvm", "num-cores": 3})
        space = Space(replace(space.task, target=target), space.sketches, space.materialiser)
    decisions = population(5, seed=9).decisions if changed == "decisions" else rows.decisions
    CachedExtractor(plain, tmp_path).extract(Population(space, rows.sketch_ids, decisions))
    assert plain.asked == [5]
    # What was kept first is still there.
    first = Counting()
    CachedExtractor(first, tmp_path).extract(rows)
    assert first.asked == []


def test_symbols_depend_on_the_device_and_not_on_its_name(tmp_path: Path) -> None:
    rows = population(3)
    device = analyzer_util.DEVICE
    CachedExtractor(SymbolFeatures(device=device), tmp_path).extract(rows)
    CachedExtractor(SymbolFeatures(device=replace(device, name="other", notes=("x",))), tmp_path).extract(
        rows
    )
    assert len(list(tmp_path.glob("*.npz"))) == 1
    slower = SymbolFeatures(device=replace(device, frequency=1e9))
    assert same(CachedExtractor(slower, tmp_path).extract(rows), slower.extract(rows))
    assert len(list(tmp_path.glob("*.npz"))) == 2


def test_block_names_are_part_of_the_program(tmp_path: Path) -> None:
    """TVM's comparisons of programs pass over them, the tags of a task do not."""
    [extractor] = make_extractors(["statement_tagged"], Device.load("x86-64")).values()
    x = te.placeholder((8, 8), name="x")
    found = []
    for name in ("dense", "product"):
        doubled = te.compute((8, 8), lambda i, j: x[i, j] * 2.0, name=name)
        task = make_task(te.create_prim_func([x, doubled]), analyzer_util.TARGET, "one")
        row = Space.of(task).sample(1, np.random.default_rng(0))
        batch = CachedExtractor(extractor, tmp_path).extract(row)
        found.append(batch.values[0, extractor.columns.index("tag_dense")])
    assert found == [1, 0]


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "cut short":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flipped":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])
    elif how == "text":
        path.write_text("hello")
    elif how == "array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif how == "pickle":
        with path.open("wb") as file:
            np.savez(file, header=np.array([{"a": 1}], dtype=object))
    else:
        with np.load(path) as file:
            arrays = dict(file)
        name, _, value = how.partition("=")
        arrays[name] = np.array([]) if value == "none" else arrays[name][:-1]
        np.savez(path, **arrays)


@pytest.mark.parametrize(
    "how",
    [
        *("cut short", "empty", "flipped", "text", "array", "pickle"),
        *("header=", "keys=", "values=", "offsets=", "offsets=none", "seconds="),
    ],
)
def test_a_damaged_file_is_named_and_made_again(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = population(5)
    CachedExtractor(Counting(), tmp_path).extract(rows)
    path = only_file(tmp_path)
    damage(path, how)
    plain = Counting()
    with caplog.at_level(logging.WARNING):
        assert same(CachedExtractor(plain, tmp_path).extract(rows), Counting().extract(rows))
    assert plain.asked == [5]
    assert str(path) in caplog.text
    caplog.clear()
    CachedExtractor(plain, tmp_path).extract(rows)
    assert plain.asked == [5]
    assert caplog.text == ""


def test_a_hit_charges_the_clock_what_extracting_first_cost(tmp_path: Path) -> None:
    rows = population(8)
    first = Clock()
    with first.running():
        CachedExtractor(Counting(seconds=0.005), tmp_path).extract(rows)
    cost = first.seconds()
    assert cost["materialise"] >= 8 * 0.015
    begin = time.perf_counter()
    second = Clock()
    with second.running(), stage("draft"):
        CachedExtractor(Counting(), tmp_path).extract(rows[:4])
    wall = time.perf_counter() - begin
    seconds = second.seconds()
    assert seconds["materialise"] == pytest.approx(cost["materialise"] / 2, rel=0.01)
    assert seconds["features"] >= 4 * 0.005
    assert wall < seconds["materialise"]
    assert seconds["total"] == pytest.approx(sum(v for k, v in seconds.items() if k != "total"))
    assert seconds["total"] >= seconds["materialise"] + seconds["features"]


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from tests.features import test_cache as t\n"
        f"cached = t.CachedExtractor(t.Counting(), {str(tmp_path)!r})\n"
        "rows = t.population(24)\n"
        "for i in range(int(sys.argv[1]), 24, 2): cached.extract(rows[i : i + 1])\n"
    )
    env = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    started = [subprocess.Popen([sys.executable, "-c", code, str(i)], env=env) for i in range(2)]
    assert [process.wait(timeout=120) for process in started] == [0, 0]
    plain = Counting()
    rows = population(24)
    assert same(CachedExtractor(plain, tmp_path).extract(rows), Counting().extract(rows))
    assert plain.asked == []


def test_what_cannot_be_kept(tmp_path: Path) -> None:
    class Silent(Counting):
        inputs = None  # type: ignore[assignment]

    with pytest.raises(ConfigError, match="give Silent the property `inputs`"):
        CachedExtractor(Silent(), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="choose another folder"):
        CachedExtractor(Counting(), tmp_path / "file" / "folder").extract(population(1))

    class Refusing(Counting):
        def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
            raise RejectedError("refused")

    with pytest.raises(RejectedError):
        CachedExtractor(Refusing(), tmp_path).extract(population(1))
    assert list(tmp_path.glob("*.npz")) == []


def test_candidates_that_do_not_tell_their_task_are_extracted_every_time(tmp_path: Path) -> None:
    plain = Counting()
    cached = CachedExtractor(plain, tmp_path)
    rows = list(population(3))
    rows[1].task = None
    for _ in range(2):
        assert same(cached.extract(rows), Counting().extract(rows))
    assert plain.asked == [2, 1, 1]
