"""One clock for every second of a run.

`with stage("draft"):` bills the time inside to the active clock. Stages nest: the inner one pauses the
outer one, so the stages add up to the time they cover and never count a second twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

STAGES = ("draft", "features", "predict", "materialise", "build", "run", "fit", "other")

_active: ContextVar[Clock | None] = ContextVar("pruner_clock", default=None)


class Clock:
    """Seconds by stage since it was made; what no stage claims is `other`.

    start: an earlier reading of `time.perf_counter`, of the process that started this one perhaps: its zero
    is the system's.
    """

    def __init__(self, start: float | None = None) -> None:
        self._start = time.perf_counter() if start is None else start
        self._spent = dict.fromkeys(STAGES, 0.0)
        self._charged = 0.0
        self._stack: list[str] = []
        self._mark = time.perf_counter()

    @contextmanager
    def running(self) -> Iterator[Clock]:
        """Makes this clock the one that `stage` bills to."""
        token = _active.set(self)
        try:
            yield self
        finally:
            _active.reset(token)

    def _switch(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self._spent[self._stack[-1]] += now - self._mark
        self._mark = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Bills the time inside to `name`, one of STAGES."""
        self._switch()
        self._stack.append(name)
        try:
            yield
        finally:
            self._switch()
            self._stack.pop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The time inside has not passed to this clock."""
        self._switch()
        try:
            yield
        finally:
            now = time.perf_counter()
            self._start += now - self._mark
            self._mark = now

    def charge(self, name: str, seconds: float) -> None:
        """Bills seconds that were spent at another time to `name`: what a kept result first cost. To this
        clock they have passed."""
        self._spent[name] += seconds
        self._charged += seconds

    def elapsed(self) -> float:
        """Wall seconds since the clock was made, and what it was charged."""
        return time.perf_counter() - self._start + self._charged

    def seconds(self) -> dict[str, float]:
        """Seconds by stage, `other` being the unclaimed rest, and their `total`."""
        self._switch()
        total = self.elapsed()
        spent = dict(self._spent)
        spent["other"] += total - sum(spent.values())
        return {**spent, "total": total}


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Bills the time inside to the active clock's stage; without an active clock it does nothing."""
    clock = _active.get()
    if clock is None:
        yield
        return
    with clock.stage(name):
        yield


def charge(name: str, seconds: float) -> None:
    """Charges the active clock; without an active clock it does nothing."""
    clock = _active.get()
    if clock is not None:
        clock.charge(name, seconds)


@contextmanager
def billed() -> Iterator[dict[str, float]]:
    """The seconds by stage that the block bills, whether a clock is active or not; complete when it ends."""
    spent: dict[str, float] = {}
    clock = _active.get()
    if clock is None:
        with Clock().running(), billed() as spent:
            yield spent
        return
    before = clock.seconds()
    yield spent
    after = clock.seconds()
    spent.update({name: after[name] - before[name] for name in STAGES if name != "other"})
