"""Blocks: what all arms did on one workload with one seed on one machine, as a small JSON file."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.arm import Arm
from experiments.curves import Incumbent, Point, curve
from pruner.errors import ConfigError
from pruner.files import write_whole


@dataclass(frozen=True)
class Retimed:
    """latency_s: seconds of a call; None for a program that does not count, and then `failure` says why: it
    does not run any more, or its output is not the untuned program's (`wrong`)."""

    latency_s: float | None
    failure: str | None = None


@dataclass
class ArmResult:
    """What is kept of an arm. described: see Arm. commit: what ran it. trials: measured; failures: of them by
    kind. seconds: by stage and total. held: its incumbents. notes: what the run told its user. error: how it
    failed; the rest is empty then."""

    described: dict[str, Any]
    commit: str | None
    trials: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    held: list[Incumbent] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str | None = None


@dataclass
class Block:
    """settings: trials and overrides, which all arms share. machine: the fingerprint. traces: of every
    incumbent by its digest, empty where it need not be timed again. retimed: the incumbents of `timed` arms,
    timed again in turn; a block is finished when these are all arms asked for. best_s: the lowest latency
    that the workload is known to have, where it was known beforehand. beside: how many studies ran at a time;
    of several the seconds say nothing."""

    workload: str
    seed: int
    settings: dict[str, Any]
    machine: str
    arms: dict[str, ArmResult] = field(default_factory=dict)
    traces: dict[str, list[Any]] = field(default_factory=dict)
    retimed: dict[str, Retimed] = field(default_factory=dict)
    timed: list[str] = field(default_factory=list)
    untuned_s: float | None = None
    best_s: float | None = None
    beside: int = 1

    @property
    def name(self) -> str:
        """Of the workload and seed, as its file and the folder of its runs are called."""
        return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', self.workload)}-seed{self.seed}"

    def finished(self, arms: Sequence[Arm]) -> bool:
        """Whether all of these arms have ended well and were timed again."""
        return all(arm.name in self.timed for arm in arms)

    @property
    def ended(self) -> list[str]:
        """The arms that have ended well."""
        return [name for name, arm in self.arms.items() if arm.error is None]

    @property
    def failed(self) -> dict[str, str]:
        """How arms failed, by arm."""
        return {name: arm.error for name, arm in self.arms.items() if arm.error is not None}

    def programs(self, arms: Iterable[str]) -> set[str]:
        """Digests of what these arms held best."""
        return {one.program for name in arms for one in self.arms[name].held}

    def refused(self) -> set[str]:
        """Digests of the programs that do not count."""
        return {program for program, found in self.retimed.items() if found.failure is not None}

    def curve(self, arm: str) -> list[Point]:
        """The arm's incumbents as they were timed again; empty where it failed or none of them counts."""
        if arm not in self.timed:
            return []
        valid = {name: found.latency_s for name, found in self.retimed.items() if found.latency_s is not None}
        return curve(self.arms[arm].held, valid)

    def check(self, other: Block, path: Path) -> None:
        """Raises ConfigError unless the other one, read from `path`, is this block with these settings."""
        mine = {"workload": self.workload, "seed": self.seed, **self.settings}
        theirs = {"workload": other.workload, "seed": other.seed, **other.settings}
        if "workload_hash" not in theirs:  # a block of before it was told
            mine.pop("workload_hash", None)
        if self.best_s is not None:  # told by the records, whose folder may be another of the same name
            mine["best_s"], theirs["best_s"] = self.best_s, other.best_s
        differing = [
            f"{key}={theirs.get(key)}, here {key}={mine[key]}" for key in mine if theirs.get(key) != mine[key]
        ]
        if differing:
            raise ConfigError(
                f"{path} was made with {'; '.join(differing)}. Choose another folder as blocks=DIR."
            )

    def check_arm(self, arm: Arm, path: Path) -> None:
        """Raises ConfigError when the block holds another arm by this name."""
        there = self.arms.get(arm.name)
        if there is not None and there.described != arm.described:
            raise ConfigError(
                f"{path} holds an arm {arm.name} with {there.described}; now it is {arm.described}. Give the "
                "arm another name, or choose another folder as blocks=DIR."
            )

    def save(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        document = {**asdict(self), "traces": {name: _packed(trace) for name, trace in self.traces.items()}}
        write_whole(path, json.dumps(document, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Block:
        """Reads the file. Raises ConfigError when it is no block."""
        try:
            found = json.loads(path.read_text("utf-8"), parse_constant=_no_number)
            found["traces"] = {name: _unpacked(text) for name, text in found["traces"].items()}
            found["retimed"] = {name: Retimed(**one) for name, one in found["retimed"].items()}
            found["arms"] = {name: _arm(one) for name, one in found["arms"].items()}
            block = cls(**found)
            block._check_whole()
            return block
        except (
            *(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError),
            zlib.error,
        ) as error:
            raise ConfigError(f"{path} is no block ({type(error).__name__}: {error}). Remove it.") from error

    def _check_whole(self) -> None:
        """Raises ValueError, TypeError or KeyError for a block that does not hold what it speaks of."""
        if not (isinstance(self.settings, dict) and isinstance(self.machine, str)):
            raise ValueError("its settings or its machine are none")
        if not (isinstance(self.beside, int) and self.beside >= 1):
            raise ValueError("it does not say how many studies ran at a time")
        known = (self.best_s, self.untuned_s, *(one.latency_s for one in self.retimed.values()))
        latencies = [latency_s for latency_s in known if latency_s is not None]
        if not all(latency_s > 0 for latency_s in latencies):
            raise ValueError("its latencies are none")
        for name, arm in self.arms.items():
            points = [(one.trial, one.seconds) for one in arm.held]
            if not all(trial >= 1 and seconds > 0 for trial, seconds in points):
                raise ValueError(f"what {name} held is at no trial or time")
            if not all(number >= 0 for number in (arm.trials, *arm.failures.values(), *arm.seconds.values())):
                raise ValueError(f"the counts or seconds of {name} are none")
            if not all(isinstance(note, str) for note in arm.notes):
                raise ValueError(f"the notes of {name} are none")
        if not self.programs(self.arms) <= set(self.traces):
            raise ValueError("it lacks programs that its arms held best")
        for name in self.timed:
            if not self.programs([name]) <= set(self.retimed):
                raise ValueError(f"it lacks times of {name}'s programs")
            if not self.arms[name].seconds["total"] > 0:
                raise ValueError(f"it lacks the seconds of {name}")


def _no_number(constant: str) -> float:
    raise ValueError(f"{constant} is no number that a block has")


def _arm(found: Mapping[str, Any]) -> ArmResult:
    return ArmResult(**{**found, "held": [Incumbent(**one) for one in found["held"]]})


def _packed(trace: Sequence[Any]) -> str:
    """A trace in a tenth of its size."""
    return base64.b85encode(zlib.compress(json.dumps(trace).encode(), 9)).decode()


def _unpacked(text: str) -> list[Any]:
    trace: list[Any] = json.loads(zlib.decompress(base64.b85decode(text)))
    return trace
