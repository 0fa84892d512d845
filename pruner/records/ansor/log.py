"""One line of a log, taken apart and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pruner.records.old_target import LONGEST
from pruner.records.reading import FAILED_S, parse, seconds

VERSION = "v0.6"
_STEPS = 512
_DETAIL = 1000  # characters
# auto_scheduler's MeasureErrorNo: instantiation, host and device compiler; device; result; the two time-outs.
_FAILURE = {1: "build", 2: "build", 3: "build", 4: "run", 5: "wrong", 6: "timeout", 7: "timeout", 8: "run"}


class Refused(ValueError):
    """A line that gives no record. reason: a short noun; detail: what there is to say about this one."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason} ({detail[:_DETAIL]})" if detail else reason)
        self.reason = reason
        self.detail = detail[:_DETAIL]


class Untranslated(Refused):
    """A step that makes a program, but none that sketches of MetaSchedule's form express."""

    def __init__(self, step: str, detail: str) -> None:
        super().__init__(f"{step} not translated", detail)


@dataclass(frozen=True)
class Entry:
    """A record before its results are read. workload: the key's entries. hardware: Ansor's parameters in its
    order. steps: unchecked but for being lists that begin with a name. results: four, unchecked."""

    key: str
    workload: tuple[Any, ...]
    target: str
    hardware: tuple[int, ...]
    steps: tuple[list[Any], ...]
    results: tuple[Any, ...]


@dataclass(frozen=True)
class Result:
    """What was measured. latency_s, spread_s: NaN where `failure` is not empty. cost_s: NaN where unknown."""

    latency_s: float
    spread_s: float
    failure: str
    cost_s: float


def read_entry(line: str) -> Entry:
    """The record of a line. Raises Refused."""
    try:
        record = parse(line)
    except ValueError as error:
        raise Refused(str(error)) from None
    if not isinstance(record, dict):
        raise Refused("no object")
    version = record.get("v")
    if version != VERSION:
        raise Refused("version", f"{str(version)[:40]!r}; {VERSION} is read")
    (task, state), results = _list(record.get("i"), 2, "i"), _list(record.get("r"), 4, "r")
    key, target, hardware = _list(task, 6, "task")[:3]
    steps = _list(state, 2, "state")[1]
    if not isinstance(steps, list) or len(steps) > _STEPS:
        raise Refused("steps", f"a list of up to {_STEPS} is read")
    for step in steps:
        if not isinstance(step, list) or not step or not isinstance(step[0], str):
            raise Refused("steps", "a step is no list that begins with its name")
    if not isinstance(hardware, list) or len(hardware) != 8 or not all(map(is_int, hardware)):
        raise Refused("hardware", "eight integers of 32 bits are needed")
    key = _text(key, "workload key")
    return Entry(
        key=key,
        workload=_workload(key),
        target=_text(target, "target"),
        hardware=tuple(hardware),
        steps=tuple(steps),
        results=tuple(results),
    )


def read_result(results: tuple[Any, ...]) -> Result:
    """Run times, error number and cost of a record, checked. Raises Refused."""
    times, error, cost, _ = results
    if not is_int(error) or (error != 0 and error not in _FAILURE):
        raise Refused("error number", str(error)[:40])
    measured = (math.nan, math.nan) if error else seconds(times)
    if isinstance(measured, str):
        raise Refused(measured)
    known = isinstance(cost, (int, float)) and not isinstance(cost, bool) and 0 < cost < FAILED_S
    return Result(
        latency_s=measured[0],
        spread_s=measured[1],
        failure=_FAILURE[error] if error else "",
        cost_s=float(cost) if known else math.nan,
    )


def is_int(value: Any) -> bool:
    """Whether it is a whole number of 32 bits, as Ansor's are; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31


def _list(value: Any, length: int, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise Refused("no list", f"{name} is a {type(value).__name__}")
    if len(value) != length:
        raise Refused("field count", f"{name} has {len(value)} entries, not {length}")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise Refused(name, "no text")
    if len(value) > LONGEST:
        raise Refused(name, f"{len(value):,} characters; up to {LONGEST:,} are read")
    return value


def _workload(key: str) -> tuple[Any, ...]:
    try:
        entries = parse(key)
    except ValueError as error:
        raise Refused("workload key", str(error)) from None
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], str):
        raise Refused("workload key", "a list that begins with a name is needed")
    return tuple(entries)
