"""How well a verifier ranks the programs of tasks: Top-k, pairwise accuracy, rank correlation.

Top-k is TenSet's (Zheng et al., NeurIPS 2021): over tasks i with weights w, `sum w_i L_i / sum w_i L_i,k`,
L_i the best latency of the task and L_i,k the best one among its k programs with the highest scores. Where
equal scores leave open which programs these are, L_i,k is its expectation, exactly; where all scores are
equal, that is a random order's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from experiments.best_k import expected_kth, rank_correlation

Floats = NDArray[np.float64]

KS = (1, 5)
# What `together` gives, in this order.
FIGURES = ("top1", "top5", "median1", "pairwise", "rank_correlation")


@dataclass(frozen=True)
class Ranked:
    """A task's programs as they were ranked. top_s: seconds, the expected best latency among the first k, by
    k of KS. pairwise, rank_correlation: None where all programs are equally fast."""

    best_s: float
    top_s: tuple[float, ...]
    pairwise: float | None
    rank_correlation: float | None

    def top(self, k: int) -> float:
        """Top-k of this task alone."""
        return self.best_s / self.top_s[KS.index(k)]


def ranked(scores: Floats, latency_s: Floats) -> Ranked:
    """A task's programs by their scores.

    Args:
        scores: float64[n], higher is better, n at least 1; no NaN. latency_s: float64[n], seconds.
    """
    first = [expected_kth(-scores, latency_s, k, ks=(1,))[0] for k in KS]
    pairwise = pairwise_accuracy(scores, latency_s)
    # Where the scores are all equal, any order is as likely, and the expected correlation is 0.
    correlation = None if pairwise is None else rank_correlation(-scores, latency_s) or 0.0
    return Ranked(float(latency_s.min()), tuple(s for s in first if s is not None), pairwise, correlation)


def pairwise_accuracy(scores: Floats, latency_s: Floats) -> float | None:
    """The share of the pairs of different latency whose faster program has the higher score; equal scores are
    half right. None where no pair differs in latency."""
    different = _pairs_apart(latency_s)
    if not different:
        return None
    apart = _pairs_apart(scores)
    if not apart:
        return 0.5
    # Kendall's tau-b is (right - wrong) / sqrt(pairs that differ in the one * pairs that do in the other).
    ranks = np.unique(scores, return_inverse=True)[1]
    tau = float(kendalltau(ranks, -latency_s).statistic)
    return 0.5 + 0.5 * tau * float(np.sqrt(apart / different))


def _pairs_apart(values: Floats) -> float:
    """How many pairs of values are not equal."""
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    return float(len(values) * (len(values) - 1) - counts @ (counts - 1)) / 2


def together(tasks: Sequence[Ranked], weights: Sequence[float]) -> dict[str, float | None]:
    """FIGURES over tasks, at least one. top1, top5: weighted, as above. median1: the median over tasks of
    their own Top-1. pairwise, rank_correlation: plain means over the tasks that have one."""
    best = float(np.dot(weights, [task.best_s for task in tasks]))
    figures: dict[str, float | None] = {}
    for i, k in enumerate(KS):
        reached = float(np.dot(weights, [task.top_s[i] for task in tasks]))
        # Tasks that all weigh nothing have no weighted figure.
        figures[f"top{k}"] = best / reached if reached else None
    figures["median1"] = float(np.median([task.top(1) for task in tasks]))
    for name in ("pairwise", "rank_correlation"):
        known = [value for task in tasks if (value := getattr(task, name)) is not None]
        figures[name] = float(np.mean(known)) if known else None
    return figures
