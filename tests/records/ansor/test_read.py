"""Logs become data sets: every record a row, every line that is none counted by its reason."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from tvm import te

from pruner.analyzer.device import Device
from pruner.analyzer.roofline import RooflineDraft
from pruner.records.ansor import read_ansor, register
from pruner.records.inspection import task_lines
from pruner.records.spaces import recorded_rows
from tests.records.ansor.ansor_util import CUDA, TILED, cpu_steps, line, published


def write(path: Path, *texts: str) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def test_columns_of_a_small_log(tmp_path: Path) -> None:
    log = write(
        tmp_path / "product.json",
        "# a comment",
        line(TILED, seconds=[2e-5, 4e-5]),
        "",
        line(TILED, error=6, seconds=[1e10]),
    )
    dataset, report = read_ansor(log)
    assert (report.seen, report.skipped) == (2, {})
    assert [task.id for task in dataset.tasks] == ["product"]
    np.testing.assert_allclose(dataset.latency_s, [3e-5, math.nan])
    np.testing.assert_allclose(dataset.spread_s, [1e-5, math.nan])
    assert dataset.failure.tolist() == ["", "timeout"]
    assert dataset.cost_s.tolist() == [2.5, 2.5]
    assert dataset.device.tolist() == ["cuda sm_80"] * 2
    target = dataset.tasks[0].target
    assert (target.attrs["arch"], int(target.attrs["max_shared_memory_per_block"])) == ("sm_80", 49152)
    # Tiles, then the lanes of A's fetch and B's among 1, 2, 3, 4, then 64 among MetaSchedule's unroll steps.
    row = [4, 2, 4, 1, 2, 2, 1, 16, 2, 1, 4, 4, 2, 0, 1, 3]
    assert dataset.decisions.tolist() == [row, row]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line(TILED)[:200], "truncated line"),
        ("[1, 2]", "no object"),
        ("{}", "version"),
        (line(TILED, version="v0.7"), "version"),
        (line([["XX", 1]]), "unknown step"),
        (line([["SP", 2, 0, 64, [2]]]), "field count"),
        (line([["SP", 2, 0, 64, {"0": 2}, 1]]), "step value"),
        (line([["SP", 9, 0, 64, [2], 1]]), "index out of range"),
        (line([["SP", 2, 9, 64, [2], 1]]), "index out of range"),
        (line([["SP", 2, 0, 64, [0], 1]]), "step value"),
        (line([["RE", 2, [0, 0, 1]]]), "step value"),
        (line([["FU", 2, [0, 2]]]), "step value"),
        (line([["CHW", 2, "disk"]]), "step value"),
        (line([["SP", 2, 0, 64, [3], 1]]), "not replayed: SP not translated"),
        (line([["SP", 2, 0, 128, [2], 1]]), "other extent"),
        (line([["RF", 2, 2, 2]]), "not replayed: RF not translated"),
        (line([["RF", 2, 2, 2]], error=2), "failed, and not replayed: RF not translated"),
        (line(TILED, seconds=[0.0]), "run time 0"),
        (line(TILED, seconds=[math.nan]), "run time NaN"),
        (line(TILED, seconds=[-1.0]), "run time negative"),
        (line(TILED, seconds=[1e10]), "failure mark"),
        (line(TILED, error=77), "error number"),
        (line(TILED, key=["matmul", 0, 64, 32]), "workload values"),
        (line(TILED, key=["matmul"]), "workload values"),
        (line(TILED, key=["matmul", 64, 64, 32, "os.system"]), "workload values"),
        (line(TILED).replace(', "", 0, []]', ', "", 0]'), "field count"),
        (line(TILED).replace("-arch=sm_80", "-arch=../../x"), "target"),
        ('{"a":' * 1000 + "0" + "}" * 1000, "nesting too deep"),
    ],
)
def test_a_line_that_is_no_record_is_skipped_by_name(tmp_path: Path, text: str, reason: str) -> None:
    dataset, report = read_ansor(write(tmp_path / "log.json", text, line(TILED)))
    assert len(dataset) == 1
    assert report.skipped == {reason: 1}
    assert f"log.json:1: {reason}" in report.examples[reason][0]


def test_a_record_that_cannot_be_read_counts_for_its_task_and_as_valid_if_it_ran(tmp_path: Path) -> None:
    factored = [["RF", 2, 2, 2]]
    texts = [line(TILED), line(factored), line(factored), line(factored, error=2), line(TILED, seconds=[0.0])]
    [counted] = task_lines(read_ansor(write(tmp_path / "log.json", *texts)))
    assert (counted.records, counted.valid, counted.replayed) == (5, 3, 1)
    assert sum(counted.skipped.values()) == 4


def test_options_that_targets_no_longer_have_cost_no_records(tmp_path: Path) -> None:
    retired = "-link-params=0 -runtime=c++ -an-option-of-1999"
    old = read_ansor(write(tmp_path / "old.json", line(TILED, target=f"{CUDA} {retired}")))
    new = read_ansor(write(tmp_path / "new.json", line(TILED)))
    assert old.report.skipped == {}
    assert str(old.dataset.tasks[0].target) == str(new.dataset.tasks[0].target)


def test_a_cpu_of_a_log_has_its_cores(tmp_path: Path) -> None:
    log = write(tmp_path / "log.json", line(cpu_steps(2, 2), key=["matmul", 24, 32, 20], gpu=False))
    assert read_ansor(log).dataset.device.tolist() == ["llvm 4 cores"]
    assert read_ansor(log, device="mine").dataset.device.tolist() == ["mine"]


def test_an_unknown_workload_says_how_to_register_one(tmp_path: Path) -> None:
    steps = [["FU", 1, [0, 1]], ["SP", 1, 0, 4096, [64], 1], ["AN", 1, 0, 5], ["AN", 1, 1, 6]]
    log = write(tmp_path / "mine.json", line(steps, key=["double", 64]))
    dataset, report = read_ansor(log)
    assert len(dataset) == 0
    assert 'register("double", function)' in report.examples["unknown workload"][0]

    def double(n: int) -> list[te.Tensor]:
        a = te.placeholder((n, n), name="a")
        return [a, te.compute((n, n), lambda i, j: a[i, j] * 2.0, name="twice")]

    assert len(read_ansor(log, programs={"double": double}).dataset) == 1
    register("double of the tests", double)
    again = write(tmp_path / "again.json", line(steps, key=["double of the tests", 64]))
    assert read_ansor(again).dataset.decisions.tolist() == [[64, 64]]


def test_tasks_of_one_log_are_told_apart(tmp_path: Path) -> None:
    steps = [["FU", 1, [0, 1]], ["SP", 1, 0, 4096, [64], 1], ["AN", 1, 0, 5], ["AN", 1, 1, 6]]
    other = [["FU", 1, [0, 1]], ["SP", 1, 0, 1024, [64], 1], ["AN", 1, 0, 5], ["AN", 1, 1, 6]]
    keys = [["relu_layer", 64, 64], ["relu_layer", 32, 32]]
    log = write(
        tmp_path / "relu.json", line(steps, key=keys[0]), line(other, key=keys[1]), line(steps, key=keys[0])
    )
    dataset = read_ansor(log).dataset
    assert [task.id for task in dataset.tasks] == ["relu", "relu-2"]
    assert dataset.task.tolist() == [0, 1, 0]


COUNTS = {
    "a100": {
        **{"conv2d": 994, "depthwise": 995, "matmul": 990, "pooling": 1000, "reduce": 70, "relu": 7},
        **{"gemm_1024x1024x1_f32": 996, "gemm_16x512x64_f32": 1000, "gemm_1x5x1024_f32": 994},
        "gemm_3072x1024x512_f16": 793,
    },
    "rtx3080": {"conv2d": 998, "depthwise": 998, "matmul": 996, "pooling": 1000, "reduce": 70, "relu": 7},
    "x86": {"conv2d": 1000, "matmul": 1000},
}
DEVICES = {"a100": "a100-40g", "rtx3080": "rtx3080", "x86": "x86-64"}


@pytest.mark.parametrize("folder", COUNTS)
def test_the_published_logs_load_and_arrays_express_them(folder: str) -> None:
    device = Device.load(DEVICES[folder])
    for name, valid in COUNTS[folder].items():
        path = published(f"{folder}/{name}")
        dataset, report = read_ansor(path)
        assert report.skipped == {}
        ran = dataset[dataset.failure == ""]
        assert len(ran) == valid
        rows, kept = recorded_rows(ran)
        assert len(kept) == valid
        assert all(rows.space.supported)
        assert rows.space.legal(rows).all()
        RooflineDraft(device=device).score(rows)
        assert rows.space.slow_rows == 0


def test_decisions_are_the_logs_own_numbers() -> None:
    path = published("a100/gemm_3072x1024x512_f16")
    dataset = read_ansor(path).dataset
    with gzip.open(path, "rt") as file:
        for text, row in zip(file, dataset.decisions, strict=True):
            steps = json.loads(text)["i"][1][1]
            factors = [step[4] for step in steps if step[0] == "SP" and len(step[4]) > 1]
            row_factors = [row[1:5].tolist(), row[6:10].tolist(), row[11:13].tolist()]
            assert row_factors == factors
