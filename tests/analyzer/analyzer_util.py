"""Spaces and devices for the analyzer's tests."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tvm import te
from tvm.s_tir import Schedule

from pruner.analyzer.device import Device, Level
from pruner.analyzer.formula import FormulaDraft
from pruner.search.nest import Nest
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.search.tir_reader import read_nest
from pruner.workload import load_task, make_task, resolve_target

TARGET, _ = resolve_target({"kind": "llvm", "num-cores": 4}, 4)

# Four cores with two pipes of eight lanes and sixteen registers; round numbers everywhere.
DEVICE = Device(
    name="round",
    kind="cpu",
    levels=(
        Level("registers", "lane", 16 * 32, 1e12, 8),
        Level("l1", "pipe", 32 << 10, 5e11, 2),
        Level("l2", "core", 512 << 10, 2e11, 4),
        Level("l3", "machine", 8 << 20, 1e11, 1, shared=True),
        Level("memory", "machine", 0, 2e10, 1, shared=True),
    ),
    peak={"float32": 4 * 2 * 8 * 2 * 2e9},
    transaction=64,
    frequency=2e9,
    cores=4,
    target={"kind": "llvm", "num-cores": 4},
    launch=5e-6,
)

FAST = ("C2D/0", "GMM/0", "TBG/0", "NRM/0", "CBR/0")
ALL = (*FAST, "C1D/0", "C3D/0", "DEP/0", "DIL/0", "GRP/0", "T2D/0", "SFM/0")


@cache
def space(workload: str) -> Space:
    return Space.of(load_task(workload, TARGET))


@cache
def windows() -> Space:
    """Every channel has its own filter of five taps."""
    a, w = te.placeholder((68, 32), name="A"), te.placeholder((5, 32), name="W")
    k = te.reduce_axis((0, 5), name="k")
    out = te.compute((64, 32), lambda i, c: te.sum(a[i + k, c] * w[k, c], axis=k), name="C")
    return Space.of(make_task(te.create_prim_func([a, w, out]), TARGET, "windows"))


def sample(workload: str, n: int, seed: int = 0) -> Population:
    """Legal random rows."""
    rows = space(workload).sample(n, np.random.default_rng(seed))
    return rows[space(workload).legal(rows)]


def replayed(population: Population, row: int) -> Schedule:
    """The row's schedule before post-processing, made by TVM."""
    found = population.space
    sketch = found.sketches[int(population.sketch_ids[row])]
    return found.materialiser.replay(sketch.decided(population.decisions[row]))


def reference(population: Population, row: int) -> Nest:
    """The row's nest as read from the program TVM made."""
    return read_nest(replayed(population, row))


def check_reference(model: FormulaDraft, rows: Population, rel: float) -> None:
    """The scores of rows equal those of the programs that TVM makes of them."""
    truth = model.seconds(((np.array([i]), reference(rows, i)) for i in range(len(rows))), len(rows))
    assert model.score(rows) == pytest.approx(truth, rel=rel)
