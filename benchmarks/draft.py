"""Seconds of one draft (8,000 rows explored, scored and cut to 512) for twelve te_workloads on this CPU.

    python -m benchmarks.draft [workload ...]

Goal: at most 0.3 s each. The first draft of a space includes its symbolic analysis; the second one does not.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from pruner.analyzer.device import Device
from pruner.analyzer.roofline import RooflineDraft
from pruner.search.explorer import explore
from pruner.search.space import Space
from pruner.workload import load_task, resolve_target

GOAL_S = 0.3
WORKLOADS = ("C1D", "C2D", "C3D", "DEP", "DIL", "GRP", "GMM", "T2D", "CBR", "TBG", "NRM", "SFM")
REPEATS = 3


def main(names: list[str]) -> None:
    device = Device.load("auto")
    target, _ = resolve_target(dict(device.target), device.cores)
    draft = RooflineDraft(device=device)
    print(device.fingerprint)
    print(f"{'workload':10}{'explored':>10}{'kept':>6}{'first':>9}{'again':>9}   goal {GOAL_S} s")
    for name in names or [f"{family}/0" for family in WORKLOADS]:
        space = Space.of(load_task(name, target))
        seconds = []
        for seed in range(REPEATS):
            start = time.perf_counter()
            kept, explored = explore(
                space,
                draft.score,
                explored=draft.explored,
                size=draft.size,
                measured=np.empty(0, dtype=np.uint64),
                seeds=None,
                rng=np.random.default_rng(seed),
            )
            seconds.append(time.perf_counter() - start)
        again = min(seconds[1:])
        verdict = "met" if max(seconds[0], again) <= GOAL_S else "missed"
        print(f"{name:10}{explored:10,}{len(kept):6}{seconds[0]:8.3f}s{again:8.3f}s   {verdict}")


if __name__ == "__main__":
    main(sys.argv[1:])
