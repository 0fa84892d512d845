"""The tables of a study of blocks, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.curves import NEAR
from experiments.intervals import shown, verdict
from experiments.output import heading, table
from experiments.summary import METASCHEDULE, RATIOS
from pruner.report import latency

_NOTES = f"""\
Latencies are those of the programs the arms ended on, timed again in turn at the end of
their block. A ratio is the opponent's figure over ours, above 1 where ours is better: of the seconds and of
the trials until the latency was first within {NEAR:.0%} of the opponent's final one (where ours never was,
its own total counts, or the opponent's figure where that is larger: marked *), and of the final latencies.
Means over blocks are geometric, with 95 % bootstrap intervals; better or worse means that the interval
excludes 1. metaschedule is the best of TVM's arms on our measurement: the lowest final latency (median over
seeds), the fewest seconds and the fewest trials until near it."""


def text(study: str, document: Mapping[str, Any]) -> str:
    """NAME.md from the study's document."""
    ours = document["ours"]
    parts = [
        heading(study, document),
        f"{ours} against each, {document['trials']} trials an arm:\n",
        _against(document),
        "\nMedians over seeds:\n",
        _workloads(document),
        "\nBlocks:\n",
        _blocks(document),
        f"\n{_NOTES}",
    ]
    machines = {block["machine"] for block in document["blocks"]} - {document["machine"]}
    if machines:
        parts.append("\nBlocks were also made on: " + "; ".join(sorted(machines)) + ".")
    return "\n".join(parts)


def _against(document: Mapping[str, Any]) -> str:
    lines = []
    for name, found in document["against"].items():
        if found["blocks"]:
            cells = [f"{shown(found[what])} {verdict(found[what])}" for what in RATIOS]
            lines.append([name, found["blocks"], *cells, len(found["never_reached"]) or "none"])
    return table(["against", "blocks", "seconds", "trials", "latency", "never reached in"], lines)


def _workloads(document: Mapping[str, Any]) -> str:
    """A line per arm, and one of the ratios to the best of TVM's arms."""
    lines = []
    for workload, found in document["workloads"].items():
        for arm, medians in found["arms"].items():
            shown = [latency(medians["latency_s"]), f"{medians['seconds']:.0f} s"]
            lines.append([workload, arm, *shown, *_ratios(found["against"].get(arm))])
        best = found["against"].get(METASCHEDULE)
        if best is not None:
            lines.append([workload, f"{METASCHEDULE}: {best['leader']}", None, None, *_ratios(best)])
    columns = ["workload", "arm", "latency", "whole run", "ratio of seconds", "of trials", "of latency"]
    return table(columns, lines)


def _ratios(medians: Mapping[str, Any] | None) -> list[str | None]:
    """Cells of the ratios that are known."""
    known = [medians[what] if medians else None for what in RATIOS]
    return [None if ratio is None else f"{ratio:.2f}" for ratio in known]


def _blocks(document: Mapping[str, Any]) -> str:
    ours = document["ours"]
    near = {(r["workload"], r["seed"]): r["reached"] for r in document["results"] if r["arm"] == ours}
    lines = []
    for row in document["results"]:
        where = (row["workload"], row["seed"])
        cells = [*where, row["arm"], latency(row["latency_s"])]
        if row["latency_s"] is None:
            lines.append([*cells, *["failed" if row["error"] else None] * 3])
            continue
        failed = ", ".join(f"{count} {kind}" for kind, count in row["failures"].items())
        lines.append([*cells, f"{row['seconds']['total']:.0f} s", failed, _near(near[where], row["arm"])])
    columns = ["workload", "seed", "arm", "latency", "whole run", "failed trials", f"{ours} was there after"]
    return table(columns, lines)


def _near(reached: Mapping[str, Any], arm: str) -> str | None:
    """When ours was first near this arm's result."""
    if arm not in reached:
        return None
    return f"{reached[arm]['seconds']:.0f} s, {reached[arm]['trials']} trials" if reached[arm] else "*"
