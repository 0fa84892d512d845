"""The tables and the picture of drafts of several sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.curves import NEAR
from experiments.intervals import shown, verdict
from experiments.output import heading, table
from experiments.summary import RATIOS
from pruner.figures import empty_figure
from pruner.report import latency

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

# What a round costs that the size can change.
_STAGES = ("draft", "materialise", "features", "predict", "fit")

_NOTES = f"""\
Latencies are those of the programs that the runs ended on, timed again in turn at the end of
their block. A ratio is the figure of the base over the size's, above 1 where the size is better: of the
seconds and of the trials until the latency was first within {NEAR:.0%} of the base's final one, and of the
final latencies. `never reached in` counts the blocks in which the size never was: there it counts its own
total, or the base's figure where that is larger. Means over blocks are geometric, with 95 % bootstrap
intervals; better or worse: the interval excludes 1. A single block has no interval."""


def text(study: str, document: Mapping[str, Any]) -> str:
    """NAME.md from the study's document."""
    parts = [
        heading(study, document),
        f"Sizes of the draft against {document['base']}, {document['trials']} trials a run:\n",
        _ratios(document),
        "\nMedians over seeds:\n",
        _medians(document["results"]),
        f"\n{_NOTES}",
    ]
    failed = [row for row in document["results"] if row["error"]]
    parts += [f"\n{r['workload']} seed {r['seed']} {r['arm']} failed: {r['error']}" for r in failed]
    return "\n".join(parts)


def _ratios(document: Mapping[str, Any]) -> str:
    lines = []
    for verifier, sizes in document["summary"].items():
        for size, found in sizes.items():
            cells = [f"{shown(found[what])} {verdict(found[what])}" for what in RATIOS]
            lines.append([verifier, size, found["blocks"], *cells, len(found["never_reached"]) or "none"])
    return table(["verifier", "size", "blocks", "seconds", "trials", "latency", "never reached in"], lines)


def _medians(results: Sequence[Row]) -> str:
    """A line a workload, verifier and size."""
    lines = []
    for where, same in _grouped(results).items():
        stages = [f"{median(r['seconds'].get(stage, 0.0) for r in same):.1f} s" for stage in _STAGES]
        total = f"{median(r['seconds']['total'] for r in same):.0f} s"
        lines.append([*where, latency(median(r["latency_s"] for r in same)), total, *stages])
    return table(["workload", "verifier", "size", "latency", "whole run", *_STAGES], lines)


def picture(results: Sequence[Row]) -> Figure:
    """A column a workload: the final latency above and the seconds of a run below, against the size; a point
    a run, a line a verifier through the medians."""
    workloads = list(dict.fromkeys(row["workload"] for row in results))
    made = empty_figure(3.6 * len(workloads) + 0.8, 6)
    axes = made.subplots(2, len(workloads), squeeze=False, sharex=True)
    figures = (
        ("latency (us)", lambda r: 1e6 * r["latency_s"]),
        ("whole run (s)", lambda r: r["seconds"]["total"]),
    )
    grouped = _grouped(results)
    verifiers = list(dict.fromkeys(verifier for _, verifier, _ in grouped))
    for column, workload in enumerate(workloads):
        for axis, (label, figure) in zip(axes[:, column], figures, strict=True):
            for number, verifier in enumerate(verifiers):
                points = {
                    size: [figure(row) for row in same]
                    for (where, whose, size), same in grouped.items()
                    if (where, whose) == (workload, verifier)
                }
                for size, values in points.items():
                    axis.plot([size] * len(values), values, ".", color=f"C{number}", alpha=0.5)
                middle = [median(values) for values in points.values()]
                axis.plot(list(points), middle, color=f"C{number}", label=verifier)
            axis.set_xscale("log", base=2)
            axis.set_xticks(sizes := sorted({size for _, _, size in grouped}), [str(size) for size in sizes])
            axis.minorticks_off()
            axis.set_ylabel(label if column == 0 else "")
            axis.grid(alpha=0.3)
        axes[0, column].set_title(workload)
        axes[1, column].set_xlabel("draft.size")
    axes[0, 0].legend()
    return made


def _grouped(results: Sequence[Row]) -> dict[tuple[str, str, int], list[Row]]:
    """The runs that have a result, by workload, verifier and size."""
    found: dict[tuple[str, str, int], list[Row]] = {}
    for row in results:
        if row["latency_s"] is not None:
            found.setdefault((row["workload"], row["verifier"], row["size"]), []).append(row)
    return found
