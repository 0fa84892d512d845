"""Ratios over blocks: geometric means with their bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_RESAMPLES = 20_000
_SEED = 2025
_TAILS = (2.5, 97.5)

Interval = dict[str, float | None]


def interval(ratios: Sequence[float]) -> Interval:
    """{mean, low, high} of one ratio per block: the geometric mean, and the 2.5th and 97.5th percentile of
    the means of blocks drawn with replacement (the percentile bootstrap, paired because a ratio is taken
    within its block). One block says nothing about others: its interval is null; without a block, all is."""
    if not ratios:
        return {"mean": None, "low": None, "high": None}
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    mean = float(np.exp(logs.mean()))
    if len(logs) < 2:
        return {"mean": mean, "low": None, "high": None}
    drawn = np.random.default_rng(_SEED).integers(len(logs), size=(_RESAMPLES, len(logs)))
    low, high = np.exp(np.percentile(logs[drawn].mean(axis=1), _TAILS))
    return {"mean": mean, "low": float(low), "high": float(high)}


def verdict(statistic: Interval) -> str:
    """`better` or `worse` where the interval excludes a ratio of 1, else `undecided`."""
    low, high = statistic["low"], statistic["high"]
    if low is not None and low > 1:
        return "better"
    if high is not None and high < 1:
        return "worse"
    return "undecided"


def shown(statistic: Interval) -> str:
    """`2.50 [1.98, 3.10]`, or what of it there is."""
    mean, low, high = statistic["mean"], statistic["low"], statistic["high"]
    if mean is None:
        return "-"
    return f"{mean:.2f}" if low is None or high is None else f"{mean:.2f} [{low:.2f}, {high:.2f}]"
