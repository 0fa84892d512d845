"""Journals and blocks made up by hand."""

from experiments.arm import ArmRun
from experiments.block import ArmResult, Block, Retimed
from experiments.curves import Incumbent
from pruner.records.journal import Contents
from tests.experiments.fake_arm import HEADER, records


def run(trials, *, best=None):
    """A finished run; see `fake_arm.records`."""
    contents = Contents(HEADER)
    for record in records(trials, best, "budget"):
        contents.add(record)
    return ArmRun(contents, {"total": trials[-1][0] + 1.0})


def block(workload, seed, arms, *, machine="here"):
    """A finished block. arms: by name, the points (trial, seconds, re-timed latency in us) of its curve."""
    made = Block(workload, seed, {"trials": 10, "overrides": []}, machine)
    for name, points in arms.items():
        held = [Incumbent(trial, seconds, f"{name}-{us}") for trial, seconds, us in points]
        made.retimed |= {f"{name}-{us}": Retimed(us * 1e-6) for _, _, us in points}
        trials, total = points[-1][:2]
        made.arms[name] = ArmResult(
            {"overrides": [], "program": name},
            "abc",
            trials,
            {"build": 1},
            {"build": total, "total": total},
            held,
        )
        made.timed.append(name)
    return made
