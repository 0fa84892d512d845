"""Intervals of a study's figures over tasks and seeds: what another draw of both might have given.

Seeds alone would tell what halves and first weights do; of three of them a bootstrap is their range. Another
set of tasks differs by more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.intervals import Interval
from experiments.ranking import FIGURES, KS, Ranked

Floats = NDArray[np.float64]

_RESAMPLES = 2_000
_SEED = 2025
_TAILS = (2.5, 97.5)


@dataclass(frozen=True, eq=False)
class Draws:
    """Tasks and seeds drawn with replacement, independently; the first draw is all of them once.

    tasks: int64[draws, T], positions. seeds: float64[draws, S], the share of each.
    """

    tasks: NDArray[np.int64]
    seeds: Floats

    @classmethod
    def of(cls, tasks: int, seeds: int) -> Draws:
        rng = np.random.default_rng(_SEED)
        drawn = rng.integers(tasks, size=(_RESAMPLES, tasks))
        chosen = rng.integers(seeds, size=(_RESAMPLES, seeds))
        shares = (chosen[:, :, None] == np.arange(seeds)).mean(axis=1)
        return cls(
            np.concatenate([np.arange(tasks)[None], drawn]),
            np.concatenate([np.full((1, seeds), 1 / seeds), shares]),
        )

    def figures(self, ranked: Sequence[Sequence[Ranked]], weights: Sequence[float]) -> dict[str, Floats]:
        """FIGURES of every draw, float64[draws], as `together` defines them: the mean over the seeds. NaN
        where there is none.

        Args:
            ranked: by seed, a Ranked of each task, in one order. weights: of the tasks.
        """
        w = np.asarray(weights)
        best = np.array([[task.best_s for task in seed] for seed in ranked])
        found: dict[str, Floats] = {}
        with np.errstate(invalid="ignore", divide="ignore"):
            for i, k in enumerate(KS):
                reached = np.array([[task.top_s[i] for task in seed] for seed in ranked])
                sums = [(w * one)[:, self.tasks].sum(axis=2) for one in (best, reached)]
                found[f"top{k}"] = self._over_seeds(sums[0] / sums[1])
        own = np.array([[task.top(1) for task in seed] for seed in ranked])
        found["median1"] = self._over_seeds(np.median(own[:, self.tasks], axis=2))
        for name in ("pairwise", "rank_correlation"):
            values = np.array([[getattr(task, name) for task in seed] for seed in ranked], dtype=np.float64)
            drawn = values[:, self.tasks]
            known = ~np.isnan(drawn)
            with np.errstate(invalid="ignore"):
                found[name] = self._over_seeds(np.where(known, drawn, 0.0).sum(axis=2) / known.sum(axis=2))
        return {name: found[name] for name in FIGURES}

    def _over_seeds(self, figures: Floats) -> Floats:
        """float64[draws] of float64[S, draws]."""
        mean: Floats = np.einsum("sd,ds->d", figures, self.seeds)
        return mean


def interval_of(draws: Floats) -> Interval:
    """{mean, low, high}: that of all tasks and seeds, which is the first draw, and the 2.5th and 97.5th
    percentile of the others; no interval where all draws are one, as of one task and one seed, and nothing
    where there is no figure."""
    if np.isnan(draws[0]):
        return {"mean": None, "low": None, "high": None}
    others = draws[1:][~np.isnan(draws[1:])]
    if np.ptp(others) < 1e-12:
        return {"mean": float(draws[0]), "low": None, "high": None}
    low, high = np.percentile(others, _TAILS)
    return {"mean": float(draws[0]), "low": float(low), "high": float(high)}


def intervals(figures: Mapping[str, Floats], less: Mapping[str, Floats] | None = None) -> dict[str, Interval]:
    """Of every figure, or of its difference to another one's of the same draws."""
    return {n: interval_of(of if less is None else of - less[n]) for n, of in figures.items()}
