"""What a check found, as a table: does the draft beat chance, and does it rank as the GPU does?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

# Fewer pairs say nothing about a rank correlation.
_FEWEST = 5
_HEAD = ("task", "ran", "failed", "draft's best", "random's best", "ratio", "rank corr.", "of random")


@dataclass(frozen=True)
class Outcome:
    """One program. task: its name; arm: `draft` or `random`; predicted_s: the draft's seconds, None for a
    program that the draft would not run; latency_s: None for a failure."""

    task: str
    arm: str
    predicted_s: float | None
    latency_s: float | None
    failure: str | None


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's coefficient; None for fewer than five pairs, or where one side is all the same."""
    if len(first) < _FEWEST:
        return None
    ranks = np.array([_ranks(first), _ranks(second)])
    if (ranks.std(axis=1) == 0).any():
        return None
    return float(np.corrcoef(ranks)[0, 1])


def table(outcomes: Sequence[Outcome]) -> str:
    """One line a task, and the failures by kind."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for name in dict.fromkeys(outcome.task for outcome in outcomes):
        rows.append(_row(name, [outcome for outcome in outcomes if outcome.task == name]))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    failures = Counter(outcome.failure for outcome in outcomes if outcome.failure)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(failures.items()))
    lines.append(f"failures: {listed or 'none'}")
    lines.append(
        "ratio: random's best over draft's best, above 1 where the draft's is faster; rank corr.: of the "
        "draft's predicted seconds with the measured ones (Spearman), over all and over the random programs"
    )
    return "\n".join(lines)


def duration(seconds: float | None) -> str:
    """`12.3 us`; a dash for None."""
    if seconds is None:
        return "-"
    factor, unit = (1e6, "us") if seconds < 1e-3 else (1e3, "ms")
    return f"{seconds * factor:.4g} {unit}"


def _row(name: str, outcomes: list[Outcome]) -> tuple[str, ...]:
    ran = [outcome for outcome in outcomes if outcome.latency_s is not None]
    random = [outcome for outcome in ran if outcome.arm == "random"]
    ours = _best(outcome for outcome in ran if outcome.arm == "draft")
    chance = _best(random)
    return (
        name,
        str(len(ran)),
        str(len(outcomes) - len(ran)),
        duration(ours),
        duration(chance),
        "-" if ours is None or chance is None else f"{chance / ours:.2f}",
        _correlation(ran),
        _correlation(random),
    )


def _best(outcomes: Iterable[Outcome]) -> float | None:
    return min((o.latency_s for o in outcomes if o.latency_s is not None), default=None)


def _correlation(ran: list[Outcome]) -> str:
    pairs = [(o.predicted_s, o.latency_s) for o in ran if o.predicted_s is not None]
    found = rank_correlation([p for p, _ in pairs], [s for _, s in pairs if s is not None])
    return "-" if found is None else f"{found:.2f}"


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 0; equals share the mean of theirs."""
    _, group, size = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(size)
    return ((last - size + last - 1) / 2)[group]
