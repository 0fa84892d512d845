"""The picture of a study of blocks: what every arm held best, against trials and against seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pruner.figures import empty_figure, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_STEPS = 400
_TOP = 4.0  # times the highest final latency
_TRIAL, _SECONDS, _LATENCY = 0, 1, 2  # columns of a row's curve


def curves(results: Sequence[Mapping[str, Any]]) -> Figure:
    """A column per workload: the median over seeds, in a band from the fastest to the slowest seed. results:
    rows of the study's document."""
    workloads = list(dict.fromkeys(row["workload"] for row in results))
    arms = list(dict.fromkeys(row["arm"] for row in results))
    made = empty_figure(3.4 * len(workloads) + 0.8, 6)
    axes = made.subplots(2, len(workloads), squeeze=False, sharey="col")
    shown: dict[str, Line2D] = {}
    for column, workload in enumerate(workloads):
        for number, arm in enumerate(arms):
            found = [np.array(r["curve"]) for r in results if (r["workload"], r["arm"]) == (workload, arm)]
            found = [curve for curve in found if len(curve)]
            for axis, x in zip(axes[:, column], (_TRIAL, _SECONDS), strict=True):
                if found:
                    _band(axis, found, x, f"C{number}", arm)
        axes[0, column].set_title(workload)
        finals = [row["latency_s"] for row in results if row["workload"] == workload and row["latency_s"]]
        for axis, label in zip(axes[:, column], ("trials", "seconds"), strict=True):
            _finish(axis, label, finals)
            shown |= {str(line.get_label()): line for line in axis.get_lines()}
    for axis in axes[:, 0]:
        axis.set_ylabel("latency (us)")
    made.legend(handles=list(shown.values()), loc="outside upper center", ncols=2 * max(1, len(workloads)))
    return made


def against(results: Sequence[Mapping[str, Any]], setting: str) -> Figure:
    """A column per workload: best latency against a setting that is a number, a point a run, and the median
    over runs. results: rows of a sweep."""
    workloads = list(dict.fromkeys(row["workload"] for row in results))
    made = empty_figure(4.2 * len(workloads) + 0.8, 3.6)
    axes = made.subplots(1, len(workloads), squeeze=False)
    for axis, workload in zip(axes[0], workloads, strict=True):
        points = np.array(
            sorted(
                (row["overrides"][setting], 1e6 * row["best_s"])
                for row in results
                if row["workload"] == workload and row["best_s"] is not None
            )
        ).reshape(-1, 2)
        values = np.unique(points[:, 0])
        axis.plot(*points.T, "o", color="0.6", label="a run")
        axis.plot(values, [np.median(points[points[:, 0] == v, 1]) for v in values], "o-", label="median")
        if len(values) and values[0] > 0:
            axis.set_xscale("log", base=2)
        axis.set_xticks(values, [f"{value:g}" for value in values])
        axis.set(title=workload, xlabel=setting)
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("best latency (us)")
    axes[0, 0].legend()
    return made


def _finish(axis: Axes, label: str, finals: Sequence[float]) -> None:
    """Logarithmic axes with plain numbers; up to a few times the final latencies, where arms differ."""
    axis.set_xlabel(label)
    axis.set_xscale("log")
    axis.set_yscale("log")
    if finals:
        axis.set_ylim(0.9e6 * min(finals), _TOP * 1e6 * max(finals))
    for one in (axis.xaxis, axis.yaxis):
        plain_ticks(one)
    axis.grid(alpha=0.3)


def _band(axis: Axes, found: Sequence[NDArray[np.float64]], x: int, color: str, label: str) -> None:
    """Median and range of step functions; an arm is shown from where its last seed has a program."""
    first, last = max(curve[0, x] for curve in found), max(curve[-1, x] for curve in found)
    grid = np.geomspace(first, last, _STEPS)
    held = (
        np.stack(
            [
                curve[np.searchsorted(curve[:, x], grid * (1 + 1e-12), "right") - 1, _LATENCY]
                for curve in found
            ]
        )
        * 1e6
    )
    axis.step(grid, np.median(held, axis=0), where="post", color=color, label=label)
    axis.fill_between(
        grid, held.min(axis=0), held.max(axis=0), step="post", color=color, alpha=0.2, linewidth=0
    )
