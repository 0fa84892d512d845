"""Candidates that the default draft model scores in a second, each figure beside its goal.

    python -m benchmarks.score [workload ...]

A line says it of the sketches of a convolution with so many sampled compute locations: every location is a
structure of its own, so more of them make smaller arrays. Scoring is NumPy in one thread.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence
from statistics import median

import numpy as np

from pruner.analyzer.device import Device
from pruner.analyzer.roofline import RooflineDraft
from pruner.placement import placed
from pruner.search.population import Population
from pruner.search.sketch import LocationGene
from pruner.search.space import Space
from pruner.workload import load_task

WORKLOADS = ("C2D/0", "C2D/1", "DEP/0", "GRP/0", "DIL/0", "CBR/0", "T2D/0")
ROWS = 8000
REPEATS = 9


def main(workloads: Sequence[str]) -> None:
    """Prints the table."""
    for device in (Device.auto(), Device.load("a100-40g")):
        for workload in workloads:
            seen, task, _ = placed(device, None, lambda target, of=workload: load_task(of, target))
            space, draft = Space.of(task), RooflineDraft(device=seen)
            for locations, sketches in _by_locations(space).items():
                rows = _rows(space, sketches)
                rate = len(rows) / _seconds(draft, rows)
                goal = 200_000 if locations < 2 else 40_000
                print(
                    f"{workload:6} {seen.name:9} {locations} locations  {len(rows):5,} rows {rate:9,.0f} /s  "
                    f"goal {goal:7,} /s  {'met' if rate >= goal else 'missed'}",
                    flush=True,
                )


def _by_locations(space: Space) -> dict[int, list[int]]:
    """Sketches of a space by their number of sampled locations."""
    found: dict[int, list[int]] = {}
    for i, sketch in enumerate(space.sketches):
        found.setdefault(sum(isinstance(gene, LocationGene) for gene in sketch.genes), []).append(i)
    return dict(sorted(found.items()))


def _rows(space: Space, sketches: Sequence[int]) -> Population:
    """About ROWS legal rows of the sketches."""
    drawn = space.sample_legal(ROWS * len(space.sketches) // len(sketches), np.random.default_rng(0))
    return drawn[np.isin(drawn.sketch_ids, sketches)]


def _seconds(draft: RooflineDraft, rows: Population) -> float:
    """The median of some scorings, after one that opens what the space had not met yet."""
    draft.score(rows)
    gc.collect()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        draft.score(rows)
        times.append(time.perf_counter() - start)
    return median(times)


if __name__ == "__main__":
    main(sys.argv[1:] or WORKLOADS)
