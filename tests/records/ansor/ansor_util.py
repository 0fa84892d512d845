"""Logs for tests: lines of our own making, and the published ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

GPU = [-1, 16, 64, 49152, 2147483647, 1024, 8, 32]
CPU = [4, 64, 64, 0, 0, 0, 0, 0]
CUDA = "cuda -keys=cuda,gpu -arch=sm_80 -max_num_threads=1024 -thread_warp_size=32"

# A multi-level tiled product of 64 x 64 x 32: caches, threads and fetches as Ansor's sketch has them.
TILED = [
    ["CHW", 2, "local"],
    ["SP", 2, 0, 64, [2, 4, 1, 2], 1],
    ["SP", 2, 5, 64, [1, 16, 2, 1], 1],
    ["SP", 2, 10, 32, [4, 2], 1],
    ["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]],
    ["FSP", 3, 0, 1, 3],
    ["FSP", 3, 4, 2, 3],
    ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]],
    ["CA", 2, 3, 5],
    ["CHR", 1, "shared", [2]],
    ["CA", 2, 3, 6],
    ["CHR", 0, "shared", [3]],
    ["CA", 1, 4, 6],
    ["FU", 5, [0, 1]],
    ["AN", 5, 0, 5],
    ["FU", 5, [1, 2]],
    ["AN", 5, 1, 4],
    ["FU", 5, [2, 3]],
    ["AN", 5, 2, 6],
    ["FU", 3, [0, 1]],
    ["SP", 3, 0, 256, [2], 1],
    ["AN", 3, 1, 2],
    ["FFSP", 3, 0, [2, 1], 1, 1],
    ["AN", 3, 1, 6],
    ["FU", 1, [0, 1]],
    ["SP", 1, 0, 128, [1], 1],
    ["AN", 1, 1, 2],
    ["FFSP", 1, 0, [2, 1], 1, 1],
    ["AN", 1, 1, 6],
    ["PR", 4, 0, "auto_unroll_max_step$64"],
]


# Tiled products of 24 x 32 by 20 on a CPU: with a copy that is attached to the inner or the outer tiles, or
# none, fused and spread to the depth that the last step but three says.
def cpu_steps(copy_levels: int, fused: int) -> list[list[Any]]:
    splits = [
        ["SP", 2, 0, 24, [2, 3, 2], 1],
        ["SP", 2, 4, 32, [2, 1, 8], 1],
        ["SP", 2, 8, 20, [5], 1],
        ["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]],
    ]
    tail = [["PR", 2, 0, "auto_unroll_max_step$16"]]
    main, last = (3, 9) if copy_levels else (2, 10 - fused)
    threads = [["FU", main, list(range(fused))], ["AN", main, 0, 3], *tail, ["AN", 2, last, 2]]
    if not copy_levels:
        return [*splits, *threads]
    order = [0, 3, 1, 4, 2, 5] if copy_levels == 2 else [0, 2, 1, 3]
    follow = [
        ["FSP", 3, 0, 1, copy_levels],
        ["FSP", 3, copy_levels + 1, 2, copy_levels],
        ["RE", 3, order],
        ["CA", 2, 3, 2 * copy_levels - 1],
    ]
    return [["CHW", 2, "local"], *splits, *follow, *threads]


def line(
    steps: list[Any],
    *,
    key: list[Any] | None = None,
    gpu: bool = True,
    seconds: list[float] | None = None,
    error: int = 0,
    version: str = "v0.6",
    target: str = "",
) -> str:
    """A record as Ansor writes it."""
    workload = json.dumps(["matmul", 64, 64, 32] if key is None else key)
    target = target or (CUDA if gpu else "llvm -keys=cpu ")
    task = [workload, target, GPU if gpu else CPU, "", 0, []]
    measured = [[1e-5] if seconds is None else seconds, error, 2.5, 1700000000]
    return json.dumps({"i": [task, [[], steps]], "r": measured, "v": version})


def published(name: str) -> Path:
    """A published log, such as `x86/matmul`; skips where they are not there."""
    folder = os.environ.get("PRUNER_DATA")
    if not folder:
        pytest.skip("PRUNER_DATA does not say where the published records are")
    return Path(folder) / "ansor" / f"{name}.json.gz"
