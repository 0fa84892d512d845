"""Damaged records of MetaSchedule databases: what is skipped, why, and that damage ends in a named error."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm.s_tir.meta_schedule.database import Workload

from pruner.errors import PrunerError
from pruner.records.database import plain
from pruner.records.inspection import task_lines
from pruner.records.metaschedule import read_metaschedule
from pruner.records.spaces import decided
from tests.records.mutate import damaged
from tests.records.old_database import (
    DENSE,
    FLATTEN,
    RECORDS,
    SOFTMAX,
    WORKLOADS,
    flatten,
    lines,
    records,
    write,
)

__all__ = ["flatten"]


def times(value: Any) -> Callable[[Any], None]:
    return lambda record: record[1].__setitem__(1, value)


def field(position: int, value: Any) -> Callable[[Any], None]:
    return lambda record: record[1].__setitem__(position, value)


def index(value: Any) -> Callable[[Any], None]:
    return lambda record: record.__setitem__(0, value)


def instruction(number: int, value: Any) -> Callable[[Any], None]:
    return lambda record: record[1][0][0].__setitem__(number, value)


def text(line: str) -> Callable[[Any], str]:
    return lambda record: line


def index_map(text: str) -> list[Any]:
    """An instruction that has one as text, of which TVM makes an object."""
    return ["TransformLayout", ["b0", text], [0, 0, None, 1], []]


def casts(n: int) -> dict[str, Any]:
    """A node graph of today as deep as it is long."""
    nodes: list[Any] = [{"type": "None"}, {"type": "ir.PrimType", "data": {"span": 0, "dtype": "int32"}}]
    nodes += [{"type": "prim.Cast", "data": {"span": 0, "ty": 1, "value": 1 + i}} for i in range(n)]
    return {"root_index": len(nodes) - 1, "nodes": nodes}


SKIPPED = [
    (times([0.0]), "run time 0"),
    (times([-1.0]), "run time negative"),
    (times([math.nan]), "run time NaN"),
    (times(["x"]), "run time no number"),
    (times({}), "run times no list"),
    (times([-(10**400)]), "run time negative"),
    (index(1), "workload index"),
    (index(-1), "workload index"),
    (index("0"), "workload index"),
    (lambda record: record.append(1), "field count"),
    (lambda record: record[1].pop(), "field count"),
    (lambda record: record.__setitem__(1, {"a": 1}), "record form"),
    (field(3, [["TENSOR", "float32", [1, 7]]]), "arguments of another workload"),
    (field(2, {"kind": "abacus"}), "target"),
    (field(2, 7), "target"),
    (field(0, []), "not replayed: trace form"),
    (field(0, {}), "not replayed: trace form"),
    (lambda record: record[1][0].__setitem__(1, []), "not replayed: decision missing"),
    (lambda record: record[1][0][1][0].__setitem__(1, 99), "not replayed: decision form"),
    (lambda record: record[1][0][1][0].__setitem__(0, 10_000), "not replayed: decision of no instruction"),
    (instruction(0, ["GetBlock", [], ["no_such_block", "main"], ["b0"]]), "not replayed"),
    (instruction(0, ["Conjure", [], [], ["b0"]]), "not replayed: unknown instruction"),
    (instruction(1, index_map("{" + "[" * 100_000 + "}")), "not replayed: text that is no index map"),
    (instruction(1, index_map(json.dumps(casts(100_000)))), "not replayed: text that is no index map"),
    (instruction(0, 5), "not replayed: instruction form"),
    (text('[0, [[[["GetBlock", '), "truncated line"),
    (text("[" * 100_000), "nesting too deep"),
    (text("{}"), "record form"),
    (text("what?"), "no JSON"),
]


@pytest.mark.parametrize(("change", "reason"), SKIPPED)
def test_a_damaged_record_is_skipped_with_file_line_and_reason(
    flatten: Any, change: Callable[[Any], Any], reason: str
) -> None:
    folder = flatten(change)
    dataset, report = read_metaschedule(folder)
    assert (report.seen, len(dataset)) == (3, 2)
    [(found, count)] = report.skipped.items()
    assert found.startswith(reason)
    assert count == 1
    assert report.examples[found][0].startswith(f"{folder / RECORDS}:2: {reason}")


def test_a_skipped_record_counts_for_its_task(flatten: Any) -> None:
    for change, task, valid in (
        (times([0.0]), "0", 2),
        (field(2, {"kind": "abacus"}), "0", 2),
        (field(0, []), "0", 3),
        (instruction(0, ["GetBlock", [], ["no_such_block", "main"], ["b0"]]), "0", 3),
        (field(3, []), "", 2),
    ):
        recorded = read_metaschedule(flatten(change))
        assert list(recorded.report.by_task) == ([task] if task else [])
        (line,) = task_lines(recorded)
        assert (line.records, line.valid, line.replayed, line.failed) == (3 if task else 2, valid, 2, 0)


def test_a_failure_that_does_not_replay_is_among_the_failed(flatten: Any) -> None:
    def change(record: Any) -> None:
        record[1][1] = [1e10]
        record[1][0] = []

    (line,) = task_lines(read_metaschedule(flatten(change)))
    assert (line.records, line.valid, line.failed, line.failures) == (3, 2, 1, {})
    assert line.skipped == {"failed, and not replayed: trace form": 1}


def of_today(workloads: list[str], recorded: list[Any], folder: Path) -> tuple[list[str], list[str]]:
    """The lines of the same database as this TVM writes it."""
    dataset, _ = read_metaschedule(write(folder, workloads, [json.dumps(record) for record in recorded]))
    rows = zip(dataset.task, dataset.sketch_ids, dataset.decisions, recorded, strict=True)
    texts = []
    for task, sketch, row, (_, [_, seconds, _, arguments]) in rows:
        target = plain(dataset.tasks[task].target.export())
        texts.append(
            json.dumps([int(task), [decided(dataset.tasks[task], sketch, row), seconds, target, arguments]])
        )
    return [json.dumps(plain(Workload(task.mod).as_json())) for task in dataset.tasks], texts


@pytest.mark.parametrize("today", [False, True], ids=["old", "today"])
def test_a_hundred_damaged_copies_end_in_a_result_or_a_named_error(tmp_path: Path, today: bool) -> None:
    workloads = lines(WORKLOADS)[FLATTEN:]
    recorded = [record for task in (FLATTEN, DENSE, SOFTMAX) for record in records(task)[:2]]
    for record in recorded:
        record[0] -= FLATTEN
    texts = [json.dumps(record) for record in recorded]
    if today:
        workloads, texts = of_today(workloads, recorded, tmp_path / "old")
    ends = {"result": 0, "error": 0}
    for seed in range(100):
        rng = np.random.default_rng(seed)
        first, second = (damaged(workloads, rng), texts) if seed % 2 else (workloads, damaged(texts, rng))
        try:
            dataset, report = read_metaschedule(write(tmp_path / "db", first, second))
        except PrunerError:
            ends["error"] += 1
            continue
        assert len(dataset) + sum(report.skipped.values()) == report.seen
        ends["result"] += 1
    assert ends["result"] > 50
