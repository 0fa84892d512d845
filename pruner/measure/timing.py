"""How long to time a candidate: losers briefly, those near the best until the figure is steady."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import median, pstdev

# (calls per repeat, repeats) -> mean seconds of a call, one figure per repeat.
Sampler = Callable[[int, int], list[float]]

_CHUNK = 5  # repeats between two looks at the spread


@dataclass(frozen=True)
class TimingRule:
    """slower: a candidate this many times the best is timed briefly. brief_s: calling time of a brief
    timing. repeat_s: least time of a repeat. precision: the standard error of the median, relative to
    it, at which repeating ends. longest_s: calling time at which it ends anyway. hopeless_s: a warm-up
    call longer than this is the only one."""

    slower: float = 1.5
    brief_s: float = 0.004
    repeat_s: float = 0.004
    precision: float = 0.005
    longest_s: float = 0.3
    hopeless_s: float = 2.0


def time_adaptively(
    call: Callable[[], object], sample: Sampler, best_s: float | None, rule: TimingRule
) -> list[float]:
    """Seconds of a call, one figure per repeat; best_s: the best latency so far, None when there is none."""
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    limit = float("inf") if best_s is None else rule.slower * best_s
    if first > rule.hopeless_s or (first > max(limit, rule.longest_s)):
        return [first]
    brief = sample(_calls(rule.brief_s / 3, first), _within(rule.longest_s, first, 3))
    # A disturbed machine makes repeats longer, never shorter: the shortest one tells a loser.
    if min(brief) > limit:
        return brief
    latency = median(brief)
    if latency >= rule.longest_s:
        return brief
    samples: list[float] = []
    spent = 0.0
    number = _calls(rule.repeat_s, latency)
    repeats = _within(rule.longest_s, number * latency, _CHUNK)
    while True:
        chunk = sample(number, repeats)
        samples += chunk
        spent += number * sum(chunk)
        if spent >= rule.longest_s or relative_error(samples) <= rule.precision:
            return samples


def sample_for(call: Callable[[], object], sample: Sampler, seconds: float, rule: TimingRule) -> list[float]:
    """Repeats of at least `rule.repeat_s` until `seconds` have passed, at least one."""
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    if first > rule.hopeless_s:
        return [first]
    number = _calls(rule.repeat_s, first)
    repeats = _within(seconds, number * first, _CHUNK)
    samples: list[float] = []
    while time.perf_counter() - start < seconds or not samples:
        samples += sample(number, repeats)
    return samples


def summary(samples: list[float]) -> tuple[float, float | None]:
    """Median and standard deviation; the latter is unknown for a single figure."""
    return median(samples), pstdev(samples) if len(samples) > 1 else None


def relative_error(samples: list[float]) -> float:
    """Standard error of the median relative to it, from the median absolute deviation, so that a few
    disturbed repeats do not count; infinite for less than three."""
    if len(samples) < 3:
        return float("inf")
    middle = median(samples)
    deviation = 1.4826 * median([abs(value - middle) for value in samples])
    return 1.2533 * deviation / sqrt(len(samples)) / middle if middle > 0 else 0.0


def _calls(seconds: float, latency: float) -> int:
    return max(1, min(1_000_000, ceil(seconds / max(latency, 1e-9))))


def _within(seconds: float, each: float, most: int) -> int:
    return max(1, min(most, int(seconds / max(each, 1e-9))))
