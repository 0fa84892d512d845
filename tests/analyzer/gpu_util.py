"""Spaces and a device for the analyzer's tests on GPU programs."""

from __future__ import annotations

from functools import cache

import numpy as np
from tvm.target import Target

from pruner.analyzer.device import Device
from pruner.analyzer.gpu import GpuInspection
from pruner.analyzer.inspection import inspect
from pruner.search.population import UNUSED, Population
from pruner.search.space import Space
from pruner.workload import load_task, make_task
from tests.analyzer.gemm_relu import program

TARGET = Target("nvidia/nvidia-a100")
DEVICE = Device.load("a100-40g")

FAST = ("C2D/0", "GMM/0", "CBR/0", "NRM/0", "SFM/0")
ALL = (*FAST, "C1D/0", "C3D/0", "DEP/0", "DIL/0", "GRP/0", "T2D/0", "TBG/0")


@cache
def space(workload: str) -> Space:
    return Space.of(load_task(workload, TARGET))


def sample(workload: str, n: int, seed: int = 0) -> Population:
    """n legal random rows."""
    rng, parts = np.random.default_rng(seed), []
    while sum(map(len, parts)) < n:
        rows = space(workload).sample(2000, rng)
        parts.append(rows[space(workload).legal(rows)])
    return Population.concat(parts)[:n]


@cache
def gemm_relu(n: int, dtype: str = "float32") -> Space:
    """The paper's example, matrices `n x n`."""
    return Space.of(make_task(program(n, dtype), TARGET, "gemm_relu"))


def tiled(
    i: list[int],
    j: list[int],
    k: list[int],
    fetch: tuple[int, int] = (0, 0),
    unroll: int = 0,
    sketch: int = 0,
    dtype: str = "float32",
) -> Population:
    """One row with these tile factors: five of i and j (blocks, virtual threads, threads and two of a thread)
    and three of k; categories of the two fetches' lanes and of the pragma. Sketches 1 and 2 are pipelined."""
    found = gemm_relu(int(np.prod(i)), dtype)
    decisions = np.full(found.width, UNUSED, dtype=np.int64)
    decisions[:16] = [*i, *j, *k, *fetch, unroll]
    return Population(found, np.array([sketch]), decisions[None])


def statements(rows: Population, device: Device = DEVICE) -> dict[str, GpuInspection]:
    """The statements of rows of one sketch, by name."""
    found = {}
    for s in inspect(rows.space.nests(rows), device):
        assert isinstance(s, GpuInspection)
        found[s.batch.statement.name] = s
    return found
