"""How good a draft is: the k-th best latency in it, exactly, and the rank correlation of its scores.

The best N of n programs by their scores make a draft of size N. Where scores are equal across its edge, which
of them get in is chance, and the expectation over all choices is taken in closed form; where all scores are
equal, that is the expectation of a random draft.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import rankdata, spearmanr

Floats = NDArray[np.float64]

# Best-1, Best-5 and Best-20 (Pruner, section 6.4).
KS = (1, 5, 20)


def size_of(share: float, n: int) -> int:
    """The size of a draft that is a share of n programs; one at least."""
    return max(1, math.ceil(share * n))


def expected_kth(scores: Floats, latency_s: Floats, size: int, ks: Sequence[int] = KS) -> list[float | None]:
    """For each k the expected k-th lowest latency, seconds, of a draft of `size` programs; None where the
    draft holds fewer than k.

    Args:
        scores: float64[n], lower is better, `inf` allowed. latency_s: float64[n]. size: all programs where
            there are no more.
    """
    size = min(size, len(scores))
    edge = np.partition(scores, size - 1)[size - 1]
    order = np.argsort(latency_s, kind="stable")
    order = order[scores[order] <= edge]
    chance = scores[order] == edge
    sure, tied = np.cumsum(~chance), np.cumsum(chance)
    drawn = size - int(sure[-1])
    values = latency_s[order]
    found: list[float | None] = []
    for k in ks:
        if k > size:
            found.append(None)
            continue
        # That the k-th lowest is no later than the j-th value: k of the values so far are in the draft.
        reached = _at_least(k - sure, tied, int(tied[-1]), drawn)
        found.append(float(values @ np.diff(reached, prepend=0.0)))
    return found


def _at_least(wanted: NDArray[np.int64], marked: NDArray[np.int64], n: int, drawn: int) -> Floats:
    """For each pair of `wanted` and `marked` the chance that `drawn` of n things, drawn without putting back,
    hold at least `wanted` of `marked` ones (hypergeometric)."""
    below = np.arange(max(1, int(wanted.max())))[:, None]
    log_chance = _log_choose(marked[None], below) + _log_choose(n - marked[None], drawn - below)
    chance = np.exp(log_chance - _log_choose(np.array(n), np.array(drawn)))
    less = np.where(below < wanted[None], chance, 0.0).sum(axis=0)
    return np.asarray(np.clip(1.0 - less, 0.0, 1.0), dtype=np.float64)


def _log_choose(n: NDArray[np.int64], k: NDArray[np.int64]) -> Floats:
    """log of n over k, `-inf` where k is not within 0 and n."""
    valid = (k >= 0) & (k <= n)
    k = np.where(valid, k, 0)
    return np.where(valid, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), -np.inf)


def rank_correlation(scores: Floats, latency_s: Floats) -> float | None:
    """Spearman's: the correlation of ranks, those of equal values averaged. None where either side has but
    one value: there is no order then."""
    if len(np.unique(scores)) < 2 or len(np.unique(latency_s)) < 2:
        return None
    # Ranks first: scores may be infinite.
    return float(spearmanr(rankdata(scores), latency_s).statistic)
