"""Means over blocks with their bootstrap intervals: geometric ones of ratios, plain ones of figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments import output

_RESAMPLES = 20_000
_SEED = 2025
_TAILS = (2.5, 97.5)

Interval = dict[str, float | None]


def interval(ratios: Sequence[float]) -> Interval:
    """{mean, low, high} of one ratio per block: the geometric mean, and the 2.5th and 97.5th percentile of
    the means of blocks drawn with replacement (the percentile bootstrap, paired because a ratio is taken
    within its block). One block says nothing about others: its interval is null; without a block, all is."""
    found = plain_interval(np.log(np.asarray(ratios, dtype=np.float64)).tolist())
    return {name: None if value is None else float(np.exp(value)) for name, value in found.items()}


def plain_interval(values: Sequence[float]) -> Interval:
    """As `interval`, of figures or of differences: {mean, low, high} with the arithmetic mean."""
    if not values:
        return {"mean": None, "low": None, "high": None}
    found = np.asarray(values, dtype=np.float64)
    mean = float(found.mean())
    if len(found) < 2:
        return {"mean": mean, "low": None, "high": None}
    drawn = np.random.default_rng(_SEED).integers(len(found), size=(_RESAMPLES, len(found)))
    low, high = np.percentile(found[drawn].mean(axis=1), _TAILS)
    return {"mean": mean, "low": float(low), "high": float(high)}


def verdict(statistic: Interval, none: float = 1.0) -> str:
    """`better` or `worse` where the interval excludes that there is no difference, else `undecided`. none:
    what no difference is, 1 of ratios and 0 of differences."""
    low, high = statistic["low"], statistic["high"]
    if low is not None and low > none:
        return "better"
    if high is not None and high < none:
        return "worse"
    return "undecided"


def shown(statistic: Interval, digits: int = 2) -> str:
    """`2.50 [1.98, 3.10]`, or what of it there is."""
    mean, low, high = statistic["mean"], statistic["low"], statistic["high"]
    if mean is None:
        return "-"
    text = f"{mean:.{digits}f}"
    return text if low is None or high is None else f"{text} [{low:.{digits}f}, {high:.{digits}f}]"


def cell(value: Interval | float | None) -> str | None:
    """A statistic or a plain figure in a table's cell, to the third digit."""
    return shown(value, 3) if isinstance(value, dict) else output.number(value)
