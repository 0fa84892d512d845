"""How draft_speed's rows are shown: which goals they miss, a table, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import output
from pruner.figures import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAFT_S = 0.3
SHARE = 0.99
RATIO_DRAFTED = 1000.0
# The operator and target that the last goal is about.
CONV2D, GPU = "C2D", "cuda"

Row = Mapping[str, Any]

LEGEND = f"""\
ms / valid: milliseconds for a candidate that TVM accepts, drafted and replayed; drafted: without replaying
it, over the rows that a draft keeps; scored: over all that it scores; stock: TVM's own sampling. Rejects are
blank where the space refuses no row. Goals: a draft, the first one too, in {DRAFT_S} s; {SHARE:.0%} accepted;
{SHARE:.0%} of rejects confirmed; a ratio drafted of {RATIO_DRAFTED:,.0f} for {CONV2D} on {GPU}."""


def missed(row: Row) -> list[str]:
    """The goals that a row misses, by its keys. Figures that could not be had miss theirs; a space that
    refuses nothing has no rejects to confirm."""
    goals = {
        "draft_s": row["draft_s"] <= DRAFT_S,
        "first_draft_s": row["first_draft_s"] <= DRAFT_S,
        "valid_share": row["valid_share"] >= SHARE,
        "reject_agreement": row["reject_agreement"] is None or row["reject_agreement"] >= SHARE,
    }
    if row["workload"].startswith(CONV2D) and row["target"] == GPU:
        goals["ratio_drafted"] = (row["ratio_drafted"] or 0.0) >= RATIO_DRAFTED
    return [key for key, met in goals.items() if not met]


def said(row: Row) -> str:
    """The row as a line for the terminal."""
    verdict = f"missed: {', '.join(missed(row))}" if missed(row) else "met"
    return f"{row['workload']:8}{row['target']:6}draft {row['draft_s']:.3f} s; goals {verdict}"


def report(rows: Sequence[Row]) -> str:
    """The table and what its columns mean."""
    columns = {
        "draft_s": ("draft s", "{:.3f}"),
        "first_draft_s": ("first s", "{:.3f}"),
        "valid_share": ("accepted", "{:.1%}"),
        "reject_agreement": ("rejects confirmed", "{:.1%}"),
        "legal_share": ("random legal", "{:.2%}"),
        "seconds_per_valid": ("ms / valid", "{:.2f}"),
        "drafted_seconds_per_valid": ("drafted", "{:.3f}"),
        "scored_seconds_per_valid": ("scored", "{:.4f}"),
        "stock_seconds_per_valid": ("stock", "{:.2f}"),
        "stock_valid": ("stock's valid", "{}"),
        "ratio": ("ratio", "{:.1f}"),
        "ratio_drafted": ("ratio drafted", "{:,.0f}"),
    }
    lines = []
    for row in rows:
        cells = []
        for key, (_, form) in columns.items():
            scale = 1000 if "seconds_per" in key else 1
            cells.append(None if row[key] is None else form.format(row[key] * scale))
        lines.append([row["workload"], row["target"], *cells, ", ".join(missed(row)) or "all met"])
    header = ["workload", "target", *(title for title, _ in columns.values()), "goals missed"]
    return f"{output.table(header, lines)}\n\n{LEGEND}"


def picture(rows: Sequence[Row]) -> Figure:
    """Per target, seconds per valid candidate of each side, and seconds of a draft."""
    targets = list(dict.fromkeys(row["target"] for row in rows))
    figure = empty_figure(5.5 * len(targets), 6.5)
    axes = figure.subplots(2, len(targets), squeeze=False)
    sides = {
        "stock_seconds_per_valid": "TVM's sampling",
        "seconds_per_valid": "drafted and replayed",
        "drafted_seconds_per_valid": "drafted",
    }
    for (above, below), name in zip(axes.T, targets, strict=True):
        shown = [row for row in rows if row["target"] == name]
        labels = [row["workload"] for row in shown]
        for key, label in sides.items():
            values = [np.nan if row[key] is None else row[key] for row in shown]
            above.plot(labels, values, "o", label=label)
        above.set(yscale="log", title=name, ylabel="seconds per valid candidate")
        below.bar(labels, [row["draft_s"] for row in shown])
        below.axhline(DRAFT_S, color="black", linestyle="--", linewidth=1)
        below.set(ylabel="seconds of a draft")
        for axis in (above, below):
            axis.tick_params(axis="x", rotation=60)
            axis.grid(axis="y", alpha=0.3)
    axes[0][0].legend()
    return figure
