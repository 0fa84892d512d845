"""What an ablation's blocks say: how near to the best known an arm was after so many trials."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from experiments.block import Block
from experiments.curves import Point

# Trials after which an arm is looked at, by what measures.
LOOKS = {"replay": (5, 10, 20, 50, 100), "local": (10, 20, 50, 100)}
# Within this share of the best known latency an arm is near it.
NEAR_BEST = 0.05

Row = dict[str, Any]


def best_known(blocks: Sequence[Block]) -> dict[tuple[str, str], float]:
    """By workload and machine, the lowest latency there is: of recorded ones the records', else that of any
    arm's programs, timed again."""
    found: dict[tuple[str, str], float] = {}
    for block in blocks:
        known = [point.latency_s for arm in block.timed for point in block.curve(arm)]
        here = block.best_s if block.best_s is not None else min(known, default=float("inf"))
        key = (block.workload, block.machine)
        found[key] = min(here, found.get(key, float("inf")))
    return found


def rows(blocks: Sequence[Block], arms: Sequence[str], looks: Sequence[int]) -> list[Row]:
    """A row per block and arm.

    shares: by trial of `looks`, the best known latency over the lowest so far, 0 while there is none; score:
    their mean. latency_s: at the end, null without a program. trials_to_5pct, seconds_to_5pct: until first
    within NEAR_BEST of the best known; where it never was (`reached` false) all trials of an arm, and the
    seconds of the block's longest. seconds: by stage and total, empty where studies ran beside one another.
    notes: what the run said of its verifier and its adaptation.
    """
    best = best_known(blocks)
    made = []
    for block in blocks:
        for arm in arms:
            if arm in block.arms:
                made.append(_row(block, arm, best[block.workload, block.machine], looks))
    return made


def _row(block: Block, arm: str, best_s: float, looks: Sequence[int]) -> Row:
    result, points = block.arms[arm], block.curve(arm)
    ended = arm in block.timed
    alone = block.beside == 1
    near = next((point for point in points if point.latency_s <= (1 + NEAR_BEST) * best_s), None)
    shares = {look: share(points, look, best_s) for look in looks}
    # An arm that ended early, its space used up, was near no sooner than the others' end.
    trials = max(result.trials, block.settings["trials"])
    total = max((one.seconds.get("total", 0.0) for one in block.arms.values()), default=0.0)
    return {
        "workload": block.workload,
        "seed": block.seed,
        "arm": arm,
        "best_s": best_s if isfinite(best_s) else None,  # no arm has a program
        "shares": shares if ended else {},
        "score": sum(shares.values()) / len(shares) if ended else None,
        "latency_s": points[-1].latency_s if points else None,
        "reached": near is not None,
        "trials_to_5pct": (near.trial if near else trials) if ended else None,
        "seconds_to_5pct": (near.seconds if near else total) if ended and alone else None,
        "trials": result.trials,
        "failures": result.failures,
        "seconds": result.seconds if alone else {},
        "curve": [[point.trial, point.seconds if alone else None, point.latency_s] for point in points],
        "machine": block.machine,
        "commit": result.commit,
        "notes": [note for note in result.notes if note.startswith(("verifier ", "adapt"))],
        "error": result.error,
    }


def share(points: Sequence[Point], trial: int, best_s: float) -> float:
    """The best known latency over what is held after so many trials; 0 before there is a program."""
    held = [point.latency_s for point in points if point.trial <= trial]
    return best_s / held[-1] if held else 0.0
