"""What PaCM's features cost from the decisions and from materialised programs, beside the goals.

    python -m benchmarks.features [workload] [candidates]

Both ways extract the same candidates, in turn, in one process, for a CPU and for a GPU. Ratios are taken
within a turn; in brackets are the least and the most. The first time holds a trial of the task's sketches,
which no turn repeats.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import numpy as np

from pruner.analyzer.device import Device
from pruner.features.make import make_extractors
from pruner.placement import placed
from pruner.search.materialise import materialise_many
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import load_task

TURNS = 5
WAYS = {"decisions": ("statement_fast", "dataflow"), "programs": ("statement", "dataflow")}
DEVICES = {"llvm": "x86-64", "cuda": "a100-40g"}
GOAL_S, GOAL_RATIO = 0.5, 15.0


def main(workload: str = "C2D/1", candidates: str = "512") -> None:
    """Prints the table."""
    print(f"{workload}, {candidates} candidates, {TURNS} turns")
    for target, name in DEVICES.items():
        device, task, _ = placed(Device.load(name), None, partial(load_task, workload))
        rows = _rows(Space.of(task), int(candidates))
        first = np.array([_seconds(rows, device, "decisions")])
        seconds = [{way: _seconds(rows, device, way) for way in WAYS} for _ in range(TURNS)]
        fast, slow = (np.array([turn[way] for turn in seconds]) for way in WAYS)
        _line(f"{target}: the first time", first, "s")
        _line(f"{target}: from the decisions", fast, "s", GOAL_S, bool(np.median(fast) <= GOAL_S))
        _line(f"{target}: from programs", slow, "s")
        ratio = slow / fast
        _line(f"{target}: ratio", ratio, "", GOAL_RATIO, bool(np.median(ratio) >= GOAL_RATIO))


def _rows(space: Space, n: int) -> Population:
    """n random rows of which TVM makes programs."""
    rows = space.unique(space.sample_legal(2 * n, np.random.default_rng(0)))
    made = materialise_many(list(rows), verify=False)
    rows = rows[np.array([not isinstance(one, Exception) for one in made])][:n]
    if len(rows) < n:
        raise SystemExit(f"the space has {len(rows)} of the {n} candidates that are asked for")
    return rows


def _seconds(rows: Population, device: Device, way: str) -> float:
    """Of extractors that were made before, on candidates whose programs are not made yet."""
    extractors = make_extractors(WAYS[way], device)
    start = time.perf_counter()
    for extractor in extractors.values():
        extractor.extract(rows)
    return time.perf_counter() - start


def _line(what: str, values: np.ndarray, unit: str, goal: float | None = None, met: bool = False) -> None:
    told = "" if goal is None else f"  goal {goal:g} {unit:2}  {'met' if met else 'missed'}"
    spread = f"{np.median(values):8.3f} {unit:2} [{values.min():.3f}, {values.max():.3f}]"
    print(f"{what:30} {spread}{told}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
