"""Rows of logs are the programs that were measured: their loops have the log's numbers, and they compute what
the untuned program computes."""

import gzip
import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.target import Target

from pruner.records.ansor import read_ansor
from pruner.records.dataset import Dataset
from pruner.records.spaces import recorded_rows
from pruner.search.tir_reader import read_nest
from tests.records.ansor.ansor_util import TILED, cpu_steps, line, published

TARGET = Target({"kind": "llvm", "num-cores": 2})


def steps_of(path: Path) -> list[list[Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(text)["i"][1][1] for text in file]


def replayed(dataset: Dataset, positions: list[int]) -> list[Schedule]:
    rows, _ = recorded_rows(dataset[np.array(positions)])
    space = rows.space
    return [
        space.materialiser.replay(space.sketches[sketch].decided(row))
        for sketch, row in zip(rows.sketch_ids.tolist(), rows.decisions, strict=True)
    ]


def programs(dataset: Dataset, positions: list[int]) -> list[tvm.ir.IRModule]:
    """The post-processed programs."""
    rows, _ = recorded_rows(dataset[np.array(positions)])
    candidates = [
        rows.space.candidate(sketch, row)
        for sketch, row in zip(rows.sketch_ids.tolist(), rows.decisions, strict=True)
    ]
    return [candidate.materialise().mod for candidate in candidates]


def bound_extents(schedule: Schedule) -> dict[str, int]:
    """By thread axis, its extent around the statement that has all of them."""
    deepest = max(read_nest(schedule).statements, key=lambda statement: len(statement.loops))
    return {loop.kind: int(loop.extent) for loop in deepest.loops if "." in loop.kind}


def fetched(schedule: Schedule) -> dict[str, int]:
    """By buffer, the elements that the threads fetch at once."""
    return {
        statement.reads[0].buffer.name: int(statement.loops[-1].extent)
        for statement in read_nest(schedule).statements
        if statement.fetch
    }


@pytest.mark.parametrize("name", ["a100/conv2d", "a100/depthwise", "rtx3080/matmul"])
def test_blocks_and_threads_are_the_products_of_the_logs_factors(name: str) -> None:
    path = published(name)
    positions = [0, 17, 321, 640, 998]
    logged = [steps_of(path)[position] for position in positions]
    for schedule, steps in zip(replayed(read_ansor(path).dataset, positions), logged, strict=True):
        spatial = [step for step in steps if step[0] == "SP" and len(step[4]) == 4]
        assert bound_extents(schedule) == {
            "blockIdx.x": prod(step[3] // prod(step[4]) for step in spatial),
            "vthread.x": prod(step[4][0] for step in spatial),
            "threadIdx.x": prod(step[4][1] for step in spatial),
        }


def test_fetches_are_what_the_tiles_need() -> None:
    # Not the extents of the steps that split fetches: Ansor's mutations leave those of the parent standing.
    path = published("a100/conv2d")
    positions = [3, 200, 555]
    logged = [steps_of(path)[position] for position in positions]
    for schedule, steps in zip(replayed(read_ansor(path).dataset, positions), logged, strict=True):
        n, co, y, x, ci, ky, kx = (prod(step[4]) for step in steps if step[0] == "SP" and len(step[4]) > 1)
        # A 3 x 3 window of stride 1.
        need = {"data": n * ci * (y + ky - 1) * (x + kx - 1), "weight": co * ci * ky * kx}
        assert fetched(schedule) == need


def test_a_reduction_over_threads() -> None:
    path = published("a100/reduce")
    logged = steps_of(path)
    across = [i for i, steps in enumerate(logged) if steps[0][0] == "SP"][:3]
    for schedule, position in zip(replayed(read_ansor(path).dataset, across), across, strict=True):
        assert bound_extents(schedule) == {"blockIdx.x": 128 * 512, "threadIdx.x": logged[position][0][4][0]}


def test_shared_arrays_of_a_small_program(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    log.write_text(line(TILED))
    [schedule] = replayed(read_ansor(log).dataset, [0])
    # Rows: 2 x 4 x 1 x 2 of A by 4 x 2 steps of the reduction; columns: 1 x 16 x 2 x 1.
    assert fetched(schedule) == {"A": 16 * 8, "B": 8 * 32}


@pytest.mark.parametrize(("copy_levels", "fused"), [(0, 2), (0, 4), (1, 2), (2, 2), (2, 4)])
def test_a_cpu_program_has_the_logs_loops_and_its_results(
    tmp_path: Path, copy_levels: int, fused: int
) -> None:
    log = tmp_path / "log.json"
    log.write_text(line(cpu_steps(copy_levels, fused), key=["matmul", 24, 32, 20], gpu=False))
    dataset, report = read_ansor(log)
    assert report.skipped == {}
    [program] = programs(dataset, [0])
    nest = read_nest(program)
    chunks = {loop.extent for s in nest.statements for loop in s.loops if loop.kind == "parallel"}
    assert chunks == {prod([2, 2, 2, 2][:fused])}
    [product] = [s for s in nest.statements if s.reduces]
    assert (product.loops[-1].kind, product.loops[-1].extent) == ("vectorized", 8)
    same_results(dataset, [program])


def test_a_cpu_program_without_vectors_is_post_processed(tmp_path: Path) -> None:
    steps = [step for step in cpu_steps(2, 2) if step != ["AN", 2, 9, 2]]
    log = tmp_path / "log.json"
    log.write_text(line(steps, key=["matmul", 24, 32, 20], gpu=False))
    [program] = programs(read_ansor(log).dataset, [0])
    kinds = {loop.kind for s in read_nest(program).statements for loop in s.loops}
    assert kinds == {"parallel", "serial"}


def same_results(dataset: Dataset, modules: list[tvm.ir.IRModule]) -> None:
    untuned = dataset.tasks[0].mod
    rng = np.random.default_rng(0)
    shapes = [[int(dim) for dim in p.shape] for p in untuned["main"].params]
    inputs = [rng.random(shape, dtype=np.float32) for shape in shapes]

    def result(mod: tvm.ir.IRModule) -> np.ndarray:
        tensors = [tvm.runtime.tensor(array) for array in inputs]
        tvm.compile(mod, target=TARGET)(*tensors)
        return tensors[-1].numpy()

    expected = result(untuned)
    for module in modules:
        np.testing.assert_allclose(result(module), expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x86/matmul", "x86/conv2d"])
def test_published_cpu_programs_compute_what_the_untuned_program_computes(name: str) -> None:
    dataset = read_ansor(published(name)).dataset
    # One of each of the first sketches, which differ in where the copy and the padding are.
    _, first = np.unique(dataset.sketch_ids, return_index=True)
    positions = [*sorted(first.tolist())[:3], 100, 400, 900]
    same_results(dataset, programs(dataset, positions))
