"""Drafts by enumeration."""

from itertools import combinations
from statistics import fmean


def all_drafts(scores, latency_s, size, k):
    """The k-th lowest latency, averaged over every draft that the scores allow."""
    n = len(scores)
    fair = []
    for chosen in combinations(range(n), size):
        left = [i for i in range(n) if i not in chosen]
        if not left or max(scores[i] for i in chosen) <= min(scores[i] for i in left):
            fair.append(sorted(latency_s[i] for i in chosen)[k - 1])
    return fmean(fair)
