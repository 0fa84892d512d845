"""An arm's program for tests: does what a file says, and keeps a list of who ran."""

import json
import os
import sys
import time
from pathlib import Path

from experiments.tuning import end_with_parent
from pruner.records.journal import End, Header, Journal, Trial

HEADER = Header("W/0", "hash", {"kind": "llvm"}, "dummy", "here", 1, 1, 0, {}, {})


def trace(program):
    """A stand-in for the trace of a program by that name; nothing reads it."""
    return [[[program, [], [], []]], []]


def records(trials, best, reason):
    """A run's trials and its end. trials: (elapsed seconds, latency in us or None for a failure, program);
    best: the trial it ended on, by default the fastest."""
    made = []
    for number, (elapsed, us, program) in enumerate(trials, 1):
        latency_s, failure = (None, "run") if us is None else (us * 1e-6, None)
        made.append(
            Trial(number, 1, program, trace(program), latency_s, None, 0.1, 0.1, failure, "", elapsed)
        )
    valid = [trial for trial in made if trial.latency_s is not None]
    if best is None and valid:
        best = min(valid, key=lambda trial: trial.latency_s).trial
    return [*made, End(best, reason)]


def main(launched, *overrides):
    """Does what `plan` says, a JSON file {arm: {trials, reason, error, wait}}; its folder is its name."""
    end_with_parent()
    started = time.perf_counter() - float(launched)
    given = dict(word.split("=", 1) for word in overrides)
    folder, plan = Path(given["work_dir"]), Path(given["plan"])
    told = json.loads(plan.read_text())[folder.name]
    words = [folder.name, os.getpid(), os.environ["TVM_NUM_THREADS"], given["workload"], given["seed"]]
    with plan.with_name("ran.txt").open("a") as log:
        log.write(" ".join(map(str, words)) + "\n")
    if "error" in told:
        sys.exit("first line\n\nno luck today")
    time.sleep(told.get("wait", 0))
    Journal.create(folder, HEADER).append(*records(told["trials"], None, told.get("reason", "budget")))
    total = told["trials"][-1][0] + 1
    (folder / "summary.json").write_text(json.dumps({"seconds": {"total": total, "started": started}}))
