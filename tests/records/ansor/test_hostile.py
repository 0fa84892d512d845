"""Logs that nobody means well with: each ends in a result that counts every line, or in a named error."""

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pruner.errors import PrunerError
from pruner.records.ansor import read_ansor
from tests.records.ansor.ansor_util import TILED, cpu_steps, line
from tests.records.mutate import VALUES

HUGE = 10**400
CPU_LINE = line(cpu_steps(2, 2), key=["matmul", 24, 32, 20], gpu=False)


def short(text: str) -> str:
    """A name of a case, for a text of any length."""
    return text[:20]


def test_a_hundred_mutated_logs_end_in_a_result_or_a_named_error(tmp_path: Path) -> None:
    original = "\n".join([line(TILED), line(TILED, error=2), line(TILED, seconds=[1e-3])]).encode()
    rng = random.Random(0)
    results = 0
    for _ in range(100):
        data = bytearray(original)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + rng.randint(1, 40)]
                case 2:
                    data[at:at] = rng.choice([b"9", b"-", b"[", b"}", b"null", b"1e999", b'"', b"\x00"])
                case 3:
                    data[at:at] = data[rng.randrange(len(data)) :][:60]
        path = tmp_path / "fuzzed.json"
        path.write_bytes(bytes(data))
        try:
            dataset, report = read_ansor(path)
        except PrunerError:
            continue
        assert len(dataset) + sum(report.skipped.values()) == report.seen
        results += 1
    assert results > 50


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside, and of the whole."""
    if isinstance(value, (list, dict)):
        for key in range(len(value)) if isinstance(value, list) else value:
            yield from places(value[key], (*path, key))
    yield path


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    """A copy with another value at the path."""
    if not path:
        return by
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy


def variants(text: str, rng: random.Random) -> Iterator[str]:
    """The record with three other values at each place in turn, inside its workload key too."""
    record = json.loads(text)
    task = record["i"][0]
    task[0] = json.loads(task[0])
    values = [*VALUES, HUGE, -HUGE, 2**31, 2**63, [1] * 9, 2**28]
    for path in places(record):
        for value in rng.sample(values, 3):
            other = replaced(record, path, value)
            if path[:3] == ("i", 0, 0) and len(path) > 3:
                other["i"][0][0] = json.dumps(other["i"][0][0])
            elif path[:3] != ("i", 0, 0) and path not in (("i", 0), ("i",), ()):
                other = replaced(other, ("i", 0, 0), json.dumps(task[0]))
            yield json.dumps(other)


@pytest.mark.parametrize("text", [line(TILED), CPU_LINE], ids=["gpu", "cpu"])
def test_a_wrong_value_at_any_place_costs_its_record_at_most(tmp_path: Path, text: str) -> None:
    others = list(variants(text, random.Random(0)))
    log = tmp_path / "log.json"
    log.write_text("".join(f"{each}\n" for each in (text, *others, text)))
    dataset, report = read_ansor(log)
    assert len(dataset) + sum(report.skipped.values()) == report.seen == len(others) + 2
    assert dataset.decisions[0].tolist() == dataset.decisions[-1].tolist()
    ran = dataset.latency_s[dataset.failure == ""]
    assert ((ran > 0) & (ran < math.inf)).all()
    assert len(dataset) < len(others) / 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line(TILED, seconds=[-HUGE]), "run time negative"),
        (line(TILED, target="llvm " + "'" * 100_000), "target"),
        (line(TILED, target='{"a":' + "[" * 100_000), "target"),
        (line(TILED, target='{"a":' + "[" * 4000), "target"),
        (line(TILED, target='llvm -mcpu="x'), "target"),
        (line(TILED, target="llvm -mtriple=nowhere"), "target"),
        (line(TILED, target="opencl -max_num_threads=1"), "target"),
        (line(TILED).replace("1024, 8, 32]", "1024, 8, 0]"), "hardware"),
        (line(TILED, key=["reduction_layer", [1] * 200_000, [0], 0]), "workload key"),
        (line(TILED, key=["reduction_layer", [1] * 1000, [0], 0]), "workload values"),
        (line(TILED, key=["reduction_layer", [2, 2], [0] * 1000, 0]), "workload values"),
        (line(TILED, key=["matmul", 2**28, 2**28, 1]), "workload values"),
        (line(TILED, key=["matmul", HUGE, 64, 32]), "workload values"),
        (line(TILED, key=["conv2d_layer", 1, 1, 8, 8, 1, 3, 3, 1, 2**28]), "workload values"),
        (line([["FFSP", 3, 0, [1] * 1000, 1, 1]]), "step value"),
    ],
    ids=short,
)
def test_absurd_values_are_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    log = tmp_path / "log.json"
    log.write_text(f"{text}\n{line(TILED)}\n")
    dataset, report = read_ansor(log)
    assert (len(dataset), report.skipped) == (1, {reason: 1})
    assert all(len(example) < 2000 for examples in report.examples.values() for example in examples)


def test_a_cost_that_no_measurement_has_is_unknown(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    costs = ["1e-3", "0", "-1", "null", "true", '"2.5"', "NaN", "1e999", str(HUGE), str(-HUGE)]
    log.write_text("".join(line(TILED).replace("2.5,", f"{cost},") + "\n" for cost in costs))
    dataset, report = read_ansor(log)
    assert report.skipped == {}
    assert dataset.cost_s[0] == 1e-3
    assert all(map(math.isnan, dataset.cost_s[1:]))


def test_more_unknown_workloads_than_are_kept_are_all_counted(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    unknown = [line([], key=[f"program {number}"]) for number in range(1500)]
    log.write_text("\n".join([*unknown, line(TILED), *unknown]))
    dataset, report = read_ansor(log)
    assert [task.id for task in dataset.tasks] == ["log"]
    assert (len(dataset), report.skipped) == (1, {"unknown workload": 3000})
