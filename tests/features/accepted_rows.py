"""Random rows of which TVM makes programs, and what they are for."""

from __future__ import annotations

from functools import cache

import numpy as np
from tvm.target import Target

from pruner.analyzer.device import Device
from pruner.errors import RejectedError
from pruner.search.candidate import Candidate
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import Task, load_task
from tests.analyzer import gpu_util

TARGETS = {"llvm": Target({"kind": "llvm", "num-cores": 4}), "cuda": gpu_util.TARGET}
DEVICES = {"llvm": Device.load("x86-64"), "cuda": gpu_util.DEVICE}


@cache
def sample(workload: str, target: str, n: int) -> Population:
    """n rows of an operator of TVM's test set."""
    return accepted(load_task(workload, TARGETS[target]), n)


def accepted(task: Task, n: int) -> Population:
    """n rows of a task."""
    space, rng, parts = Space.of(task), np.random.default_rng(0), []
    while sum(map(len, parts)) < n:
        rows = space.sample(1000, rng)
        rows = rows[space.legal(rows)]
        rows = rows[rng.permutation(len(rows))[: 2 * n]]
        parts.append(rows[np.array([i for i in range(len(rows)) if _passes(rows[i])], dtype=np.int64)])
    return Population.concat(parts)[:n]


def _passes(candidate: Candidate) -> bool:
    try:
        candidate.materialise()
    except RejectedError:
        return False
    return True
