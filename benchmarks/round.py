"""What a tuning run costs besides compiling and running, each figure beside its goal.

    python -m benchmarks.round [workload]

Runs `pruner tune` (40 trials) as a user would and reads its journal.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pruner.cores import usable_cpus
from pruner.records.journal import NAME, Journal

OURS = ("draft", "features", "predict", "fit")


def main(workload: str = "C2D/1") -> None:
    """Prints the table."""
    folder = Path(tempfile.mkdtemp(prefix="round-"))
    start = time.time()
    command = [sys.executable, "-m", "pruner", "tune", f"workload={workload}", "trials=40"]
    process = subprocess.Popen([*command, f"work_dir={folder / 'run'}"], stdout=subprocess.DEVNULL)
    first_s = None
    while process.poll() is None:
        time.sleep(0.05)
        journal = folder / "run" / NAME
        if first_s is None and journal.exists() and b'"trial"' in journal.read_bytes():
            first_s = time.time() - start
    status, usage = process.returncode, resource.getrusage(resource.RUSAGE_CHILDREN)
    if status or first_s is None:
        raise SystemExit(f"the run failed with exit code {status}")

    contents = Journal.read(folder / "run" / NAME)
    before = dict.fromkeys([*OURS, "build", "run", "materialise"], 0.0)
    rounds, beyond = [], []
    for done in contents.rounds:
        spent = {stage: done.seconds[stage] - before[stage] for stage in before}
        before = done.seconds
        trials = [trial for trial in contents.trials if trial.round == done.round]
        own = sum(t.build_s for t in trials) / min(8, len(usable_cpus())) + sum(t.run_s for t in trials)
        rounds.append(sum(spent[stage] for stage in OURS))
        beyond.append(spent["materialise"] + spent["build"] + spent["run"] - own)
    # The first round also waits for the workers and times the untuned program.
    print(f"{workload}, {contents.header.fingerprint}")
    rows = [
        ("draft, features, ranking, fit of a round", max(rounds), 1.0, "s"),
        ("ten candidates beyond their compile and run time", max(beyond[1:]), 1.0, "s"),
        ("first ten candidates timed, from the command", first_s, 15.0, "s"),
        ("largest process", usage.ru_maxrss / 2**20, 2.0, "GB"),
    ]
    for what, value, goal, unit in rows:
        print(
            f"{what:50} {value:7.2f} {unit:2}  goal {goal:g} {unit:2}  {'met' if value <= goal else 'missed'}"
        )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.getcwd())
    main(*sys.argv[1:])
