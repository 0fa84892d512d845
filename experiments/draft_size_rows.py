"""What draft_size says of tasks: rows of one draft model and size each, weighted sums, a summary."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.best_k import KS, expected_kth, rank_correlation, size_of
from experiments.judged import Judged
from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel, draft_scores
from pruner.config import compose, instantiate

# Shares that the summary is about, whatever else is asked for, and the name of its group of all tasks.
SUMMARY = {"1_16": 1 / 16, "1_64": 1 / 64}
ALL = "all"
# A regret below this is noise: one measurement and the next differ as much.
NOISE = 0.005

Row = dict[str, Any]
# Seconds, which weighted figures are made of; not shown.
_HIDDEN = ("asked", "best_s", "kth_s", "random_s")


@dataclass(frozen=True)
class Kind:
    """A draft model of `pruner tune`, by its option or as `package.module.Class`, with its penalties; None
    where it has none."""

    draft: str
    penalties: str | None

    @property
    def name(self) -> str:
        """As the summary calls it."""
        return self.draft if self.penalties in (None, "all") else f"{self.draft} {self.penalties}"

    def made(self, device: Device) -> DraftModel:
        """The model for a device. Raises DeviceError when it does not know such devices."""
        chosen = [f"draft.penalties={self.penalties}"] if self.penalties is not None else []
        model: DraftModel = instantiate(compose([*option(self.draft), *chosen]).draft, device=device)
        return model


def option(draft: str) -> list[str]:
    """The settings of `pruner tune` that choose the draft model; the workload is not used."""
    own = ["draft=custom", f"draft._target_={draft}"] if "." in draft else [f"draft={draft}"]
    return ["workload=GMM/0", *own]


@dataclass(frozen=True)
class Size:
    """A draft's size: a number of programs, or a share of them all."""

    size: int | None
    share: float | None

    def of(self, n: int) -> int:
        """The number of programs out of n."""
        if self.size is not None:
            return self.size
        assert self.share is not None  # it is one or the other
        return size_of(self.share, n)


def score(task: Judged, kinds: Sequence[Kind], sizes: Sequence[Size]) -> Iterator[Row]:
    """The task's rows. share: None where a number of programs was asked for; then `size` is that number, also
    where the task has fewer. unfit: programs that ran and that the draft model holds to be impossible.
    draft_s: seconds that scoring took."""
    n = len(task.rows)
    best = float(task.latency_s.min())
    random = {size: expected_kth(np.zeros(n), task.latency_s, size.of(n)) for size in sizes}
    for kind in kinds:
        model = kind.made(task.device)
        start = time.perf_counter()
        scores = draft_scores(model, task.rows)
        seconds = time.perf_counter() - start
        correlation = rank_correlation(scores, task.latency_s)
        for size in sizes:
            kth = expected_kth(scores, task.latency_s, size.of(n))
            yield {
                "task": task.name,
                "group": task.group,
                "weight": task.weight,
                "programs": n,
                "draft": kind.name,
                "size": size.of(n),
                "share": size.share,
                **_figures("best", best, kth),
                **_figures("random", best, random[size]),
                "rank_correlation": correlation,
                "unfit": int(np.isinf(scores).sum()),
                "draft_s": seconds,
                "asked": size,
                "best_s": best,
                "kth_s": kth,
                "random_s": random[size],
            }


def shown(rows: Sequence[Row]) -> list[Row]:
    """The rows as they stand in the study's files."""
    return [{key: value for key, value in row.items() if key not in _HIDDEN} for row in rows]


def grouped(rows: Sequence[Row]) -> list[Row]:
    """Rows weighted over the tasks of each group, and of all: one a draft model, size and group. A figure is
    None where a task has none at this size; tasks of fewer than k programs are not in Best-k.

    Those of a random draft are the best latency over the expected k-th best one, as the weighted sums are.
    mean_best1, mean_random1: plain means over tasks. regret: the geometric mean over tasks of 1 - Best-1 over
    chance's, neither taken for less than NOISE; 1 is chance's. rank_correlation: the tasks' median.
    """
    found = []
    for group in [*sorted({row["group"] for row in rows}), ALL]:
        inside = [row for row in rows if group in (row["group"], ALL)]
        for draft in dict.fromkeys(row["draft"] for row in inside):
            for asked in dict.fromkeys(row["asked"] for row in inside):
                same = [row for row in inside if row["draft"] == draft and row["asked"] == asked]
                found.append({"group": group, "draft": draft, **_weighted(same, asked)})
    return found


def summary(rows: Sequence[Row]) -> dict[str, dict[str, Row]]:
    """By draft model and group, Best-1 at a sixteenth and a 64th; beside it chance, `random` at a sixteenth
    and `random_at_1_64`; plain means over tasks of both, and regrets; the number of tasks and their median
    rank correlation."""
    made: dict[str, dict[str, Row]] = {}
    for label, share in SUMMARY.items():
        for row in grouped([row for row in rows if row["share"] == share]):
            figures = made.setdefault(row["draft"], {}).setdefault(row["group"], {})
            figures[f"best1_at_{label}"] = row["best1"]
            figures["random" if label == "1_16" else f"random_at_{label}"] = row["random1"]
            for figure in ("mean_best1", "mean_random1", "regret"):
                figures[f"{figure}_at_{label}"] = row[figure]
            figures |= {key: row[key] for key in ("tasks", "rank_correlation")}
    return made


def _weighted(rows: Sequence[Row], asked: Size) -> Row:
    """Tasks under one draft model and size."""
    figures: Row = {"tasks": len(rows), "size": asked.size, "share": asked.share}
    for i, k in enumerate(KS):
        enough = [row for row in rows if row["programs"] >= k]
        weights = [row["weight"] for row in enough]
        best = float(np.dot(weights, [row["best_s"] for row in enough]))
        for side, seconds in (("best", "kth_s"), ("random", "random_s")):
            values = [row[seconds][i] for row in enough]
            known = enough and None not in values
            figures[f"{side}{k}"] = best / float(np.dot(weights, values)) if known else None
    for side in ("best", "random"):
        figures[f"mean_{side}1"] = float(np.mean([row[f"{side}1"] for row in rows]))
    ratios = [max(1 - row["best1"], NOISE) / max(1 - row["random1"], NOISE) for row in rows]
    figures["regret"] = float(np.exp(np.mean(np.log(ratios))))
    correlations = [row["rank_correlation"] for row in rows if row["rank_correlation"] is not None]
    figures["rank_correlation"] = float(np.median(correlations)) if correlations else None
    return figures


def _figures(side: str, best_s: float, seconds: Sequence[float | None]) -> Row:
    """Best-k by k, under `side` and k."""
    return {f"{side}{k}": None if s is None else best_s / s for k, s in zip(KS, seconds, strict=True)}
