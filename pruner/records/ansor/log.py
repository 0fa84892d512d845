"""One line of a log, taken apart and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pruner.records.reading import parse, seconds

VERSION = "v0.6"
_STEPS = 512
# auto_scheduler's MeasureErrorNo: instantiation, host and device compiler; device; result; the two time-outs.
_FAILURE = {1: "build", 2: "build", 3: "build", 4: "run", 5: "wrong", 6: "timeout", 7: "timeout", 8: "run"}


class Refused(ValueError):
    """A line that gives no record. reason: a short noun; detail: what there is to say about this one."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason} ({detail})" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Entry:
    """A record. workload: the key's entries. hardware: Ansor's parameters in its order. steps: unchecked but
    for being lists that begin with a name. latency_s, spread_s: NaN where `failure` is not empty."""

    key: str
    workload: tuple[Any, ...]
    target: str
    hardware: tuple[int, ...]
    steps: tuple[list[Any], ...]
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
    (task, state), measured = _list(record.get("i"), 2, "i"), _list(record.get("r"), 4, "r")
    key, target, hardware = _list(task, 6, "task")[:3]
    steps = _list(state, 2, "state")[1]
    if not isinstance(steps, list) or len(steps) > _STEPS:
        raise Refused("steps", f"a list of up to {_STEPS} is read")
    for step in steps:
        if not isinstance(step, list) or not step or not isinstance(step[0], str):
            raise Refused("steps", "a step is no list that begins with its name")
    if not isinstance(target, str):
        raise Refused("target", "no text")
    if not isinstance(hardware, list) or len(hardware) != 8 or not all(map(is_int, hardware)):
        raise Refused("hardware", "eight integers are needed")
    latency_s, spread_s, failure = _measured(measured)
    cost = measured[2]
    known = isinstance(cost, (int, float)) and not isinstance(cost, bool) and 0 < cost < math.inf
    return Entry(
        key=str(key),
        workload=_workload(key),
        target=target,
        hardware=tuple(hardware),
        steps=tuple(steps),
        latency_s=latency_s,
        spread_s=spread_s,
        failure=failure,
        cost_s=float(cost) if known else math.nan,
    )


def is_int(value: Any) -> bool:
    """Whether it is a whole number; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def _list(value: Any, length: int, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise Refused("no list", f"{name} is a {type(value).__name__}")
    if len(value) != length:
        raise Refused("field count", f"{name} has {len(value)} entries, not {length}")
    return value


def _workload(key: Any) -> tuple[Any, ...]:
    if not isinstance(key, str):
        raise Refused("workload key", "no text")
    try:
        entries = parse(key)
    except ValueError as error:
        raise Refused("workload key", str(error)) from None
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], str):
        raise Refused("workload key", "a list that begins with a name is needed")
    return tuple(entries)


def _measured(measured: list[Any]) -> tuple[float, float, str]:
    """Latency, spread and failure."""
    error = measured[1]
    if not is_int(error) or (error != 0 and error not in _FAILURE):
        raise Refused("error number", str(error)[:40])
    if error:
        return math.nan, math.nan, _FAILURE[error]
    times = seconds(measured[0])
    if isinstance(times, str):
        raise Refused(times)
    return *times, ""
