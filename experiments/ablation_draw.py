"""The picture of an ablation: how near to the best known latency each arm is, trial by trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pruner.figures import empty_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACROSS = 4
_RECORDED = "as recorded"


def picture(document: Mapping[str, Any]) -> Figure:
    """A panel per workload: the best known latency over the lowest so far, the mean over seeds, against
    trials; of recorded ones also in the order in which the records were made."""
    workloads, arms = list(document["workloads"]), list(document["arms"])
    across = min(_ACROSS, len(workloads))
    down = math.ceil(len(workloads) / across)
    columns = 2 * across
    lines = math.ceil((len(arms) + 1) / columns)
    made = empty_figure(3.6 * across + 0.6, 3.2 * down + 0.2 * lines + 0.3)
    axes = made.subplots(down, across, squeeze=False)
    for axis in axes.ravel()[len(workloads) :]:
        axis.set_visible(False)
    for axis, workload in zip(axes.ravel(), workloads, strict=False):
        for number, arm in enumerate(arms):
            own = [row for row in document["results"] if (row["workload"], row["arm"]) == (workload, arm)]
            _line(axis, own, document["trials"], f"C{number % 10}", arm, "-" if number < 10 else "-.")
        recorded = document["as_recorded"].get(workload)
        if recorded:
            axis.step(*np.array(recorded).T, where="post", color="0.5", linestyle=":", label=_RECORDED)
        axis.set(title=workload, xlabel="trials", ylim=(None, 1.02))
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("best known / best so far")
    handles = {label: line for axis in axes.ravel() for line, label in _labelled(axis)}
    made.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=columns)
    return made


def _labelled(axis: Axes) -> list[tuple[Any, str]]:
    return list(zip(*axis.get_legend_handles_labels(), strict=True))


def _line(
    axis: Axes, rows: Sequence[Mapping[str, Any]], trials: int, color: str, label: str, style: str
) -> None:
    found = [shares(row["curve"], row["best_s"], trials) for row in rows if row["score"] is not None]
    if found:
        mean = np.mean(found, axis=0)
        axis.plot(np.arange(1, trials + 1), mean, style, color=color, label=label, linewidth=1.2)


def shares(curve: Sequence[Sequence[float]], best_s: float, trials: int) -> NDArray[np.float64]:
    """float64[trials]: the share after every trial. curve: (trial, seconds, latency_s)."""
    made = np.zeros(trials)
    for trial, _, latency_s in curve:
        made[int(trial) - 1 :] = best_s / latency_s
    return made
