"""Tuning curves: which program an arm held best when, and when it first came near a latency."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pruner.records.journal import Contents

# Within this share of a target an arm has reached it.
NEAR = 0.01


@dataclass(frozen=True)
class Incumbent:
    """The program an arm held best from this trial on, by its digest. seconds: since the arm's start. own_s:
    seconds of a call as the arm measured in that trial, None where nobody kept them."""

    trial: int
    seconds: float
    program: str
    own_s: float | None = None


@dataclass(frozen=True)
class Point:
    """latency_s: the re-timed value of the program held best from this trial and second on."""

    trial: int
    seconds: float
    latency_s: float


def digest(trace: Sequence[Any]) -> str:
    """A name of a program: of its whole trace as plain JSON values."""
    return hashlib.sha256(json.dumps(trace).encode()).hexdigest()[:16]


def incumbents(contents: Contents, total_s: float, refused: Container[str] = ()) -> list[Incumbent]:
    """The programs a run held best, in order, by the latencies it measured itself; the last entry is what it
    ended on, at its last trial and its total seconds. Programs in `refused` (by digest) never count.

    What a run ends on may be another program than its fastest trial: finalists are timed again.
    """
    found: list[Incumbent] = []
    best = float("inf")
    ended_on = contents.end.best if contents.end else None
    final: Incumbent | None = None
    for trial in contents.trials:
        faster = trial.latency_s is not None and trial.latency_s < best
        if not (faster or trial.trial == ended_on) or (program := digest(trial.trace)) in refused:
            continue
        if trial.trial == ended_on:
            final = Incumbent(len(contents.trials), total_s, program, trial.latency_s)
        if faster and trial.latency_s is not None:
            best = trial.latency_s
            found.append(Incumbent(trial.trial, trial.elapsed_s, program, trial.latency_s))
    if found:
        found.append(final or replace(found[-1], trial=len(contents.trials), seconds=total_s))
    return found


def curve(held: Sequence[Incumbent], latency_s: Mapping[str, float]) -> list[Point]:
    """The incumbents with their re-timed latencies; those without one are left out."""
    return [Point(one.trial, one.seconds, latency_s[one.program]) for one in held if one.program in latency_s]


def reached(points: Sequence[Point], target_s: float) -> Point | None:
    """Where the curve was first within NEAR of the target; None when it never was."""
    return next((point for point in points if point.latency_s <= (1 + NEAR) * target_s), None)
