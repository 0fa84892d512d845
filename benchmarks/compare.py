"""Draft-then-verify against TVM's own search and random search, on this CPU, in one run.

    python -m benchmarks.compare [trials=60] [seeds=2] [out=FOLDER] [workload ...]

Every search gets the same measurer, threads and number of trials. At the end each search's best program is
timed again: all of a block in turn, in one process. A block is one workload and one seed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import pruner
from pruner.analyzer.device import Device
from pruner.costmodel.random import RandomVerifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.measure.local import LocalMeasurer
from pruner.search.candidate import TraceCandidate
from pruner.search.latent import LatentSearch
from pruner.search.metaschedule import MetaScheduleSearch
from pruner.search.random import RandomSearch
from pruner.workload import load_task, resolve_target

WORKLOADS = ("C2D/1", "DEP/1", "GMM/2")
SEARCHES = {
    "pruner": (LatentSearch, XGBVerifier),
    "metaschedule": (MetaScheduleSearch, RandomVerifier),
    "random": (RandomSearch, RandomVerifier),
}


def block(workload: str, seed: int, trials: int, folder: Path) -> dict[str, dict[str, float]]:
    """Latency (timed again, seconds) and seconds of every search on one workload with one seed."""
    device = Device.load("auto")
    target, _ = resolve_target(dict(device.target), device.cores)
    task = load_task(workload, target)
    best, seconds, within = [], {}, {}
    for name, (search, verifier) in SEARCHES.items():
        result = pruner.tune(
            task.mod,
            trials=trials,
            seed=seed,
            device=device,
            search=search(),
            verifier=verifier(seed=seed),
            work_dir=folder / f"{workload.replace('/', '-')}-{name}-{seed}",
            name=workload,
        )
        seconds[name] = result.summary.seconds["total"]
        within[name] = result.curve
        best.append(TraceCandidate.of(task, result.best.schedule))
    measurer = LocalMeasurer(task=task, threads=device.cores)
    try:
        again = measurer.confirm(best)
    finally:
        measurer.close()
    return {
        name: {"latency_s": m.latency_s, "seconds": seconds[name]}
        for name, m in zip(SEARCHES, again, strict=True)
    }


def main(arguments: list[str]) -> None:
    settings = dict(word.split("=", 1) for word in arguments if "=" in word)
    workloads = [word for word in arguments if "=" not in word] or list(WORKLOADS)
    trials, seeds = int(settings.get("trials", 60)), int(settings.get("seeds", 2))
    folder = Path(settings.get("out") or tempfile.mkdtemp(prefix="compare-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{Device.load('auto').fingerprint}; {trials} trials; {time.strftime('%Y-%m-%d')}")
    print(f"{'workload':10}{'seed':>5}" + "".join(f"{name:>24}" for name in SEARCHES))
    ratios: dict[str, list[float]] = {name: [] for name in SEARCHES}
    blocks = []
    for workload in workloads:
        for seed in range(seeds):
            found = block(workload, seed, trials, folder)
            blocks.append({"workload": workload, "seed": seed, **found})
            (folder / "compare.json").write_text(json.dumps(blocks, indent=1))
            cells = (f"{f['latency_s'] * 1e6:12.1f} us {f['seconds']:7.1f} s" for f in found.values())
            print(f"{workload:10}{seed:5}" + "".join(f"{cell:>24}" for cell in cells), flush=True)
            for name, f in found.items():
                ratios[name].append(f["latency_s"] / found["pruner"]["latency_s"])
    for name in list(SEARCHES)[1:]:
        found = np.array(ratios[name])
        mean, low, high = np.exp(np.log(found).mean()), found.min(), found.max()
        print(f"{name} / pruner latency: geometric mean {mean:.3f}, {low:.3f} to {high:.3f}")
    print(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
