"""How draft_size's rows are shown: a line a task, tables, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import output
from experiments.best_k import KS
from experiments.draft_size_rows import ALL, SUMMARY
from pruner.figures import empty_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

NOTES = """\
Best-k: the best latency over the k-th best one in the draft, weighted over tasks of at least k programs as
the network runs them; a dash where a draft holds fewer than k programs. random, and in brackets: the exact
expectation of a random draft of the same size. mean: over tasks, unweighted. regret: the geometric mean over
tasks of (1 - Best-1) / (1 - random), neither taken for less than 0.005; below 1 is better than chance. Rank
correlations are Spearman's, of one task or the median over tasks."""


def said(rows: Sequence[Row], slow: int, unscored: int) -> str:
    """A task's rows as a line for the terminal: Best-1 at a sixteenth."""
    at = [row for row in rows if row["share"] == SUMMARY["1_16"]]
    parts = [f"{row['draft']} {row['best1']:.3f}" for row in at]
    parts += [f"{slow} replayed one by one"] if slow else []
    parts += [f"{unscored} of no space: left out"] if unscored else []
    first = at[0]
    found = f"{first['task']}  {first['programs']} programs  Best-1 at 1/16: random {first['random1']:.3f}"
    return "  ".join([found, *parts])


def report(document: Mapping[str, Any]) -> str:
    """The tables and what they mean."""
    parts = [
        f"Drafts for {document['device']}, by group of tasks:\n",
        _summary(document["summary"]),
        "\nBest-1 by task, at 1/16 and at 1/64 of its programs, and the rank correlation:\n",
        _tasks(document["results"]),
        "\nBest-1, Best-5 and Best-20 over all tasks, by the size of the draft:\n",
        _sizes([row for row in document["groups"] if row["group"] == ALL]),
        f"\n{NOTES}",
    ]
    if document["left_out"]:
        parts.append(
            f"\nLeft out, without a valid record that can be replayed: {', '.join(document['left_out'])}."
        )
    if document["unscored"]:
        parts.append(f"\n{document['unscored']} valid records are rows of no space and were left out.")
    return "\n".join(parts)


def _summary(summary: Mapping[str, Mapping[str, Row]]) -> str:
    """A line a draft model and group; chance behind every Best-1."""
    lines = []
    for draft, by_group in summary.items():
        for group, of in by_group.items():
            cells = []
            for label, chance in (("1_16", "random"), ("1_64", "random_at_1_64")):
                cells += [
                    f"{of[f'best1_at_{label}']:.3f} ({of[chance]:.3f})",
                    f"{of[f'mean_best1_at_{label}']:.3f} ({of[f'mean_random1_at_{label}']:.3f})",
                    f"{of[f'regret_at_{label}']:.2f}",
                ]
            lines.append([draft, group, of["tasks"], *cells, output.number(of["rank_correlation"])])
    titles = [title for share in ("1/16", "1/64") for title in (f"Best-1 at {share}", "mean", "regret")]
    return output.table(["draft", "group", "tasks", *titles, "rank correlation"], lines)


def _tasks(results: Sequence[Row]) -> str:
    """A line a task: a draft model's two figures and its rank correlation in one cell."""
    drafts = list(dict.fromkeys(row["draft"] for row in results))
    lines = []
    for task in dict.fromkeys(row["task"] for row in results):
        same = [row for row in results if row["task"] == task]
        at = {
            (row["draft"], label): row
            for row in same
            for label, share in SUMMARY.items()
            if row["share"] == share
        }
        chance = [at[drafts[0], label]["random1"] for label in SUMMARY]
        cells = [
            _cell([at[draft, label]["best1"] for label in SUMMARY], at[draft, "1_16"]) for draft in drafts
        ]
        first = same[0]
        lines.append([task, first["group"], f"{first['weight']:g}", first["programs"], _cell(chance), *cells])
    return output.table(["task", "group", "weight", "programs", "random", *drafts], lines)


def _cell(figures: Sequence[float], row: Row | None = None) -> str:
    correlation = row["rank_correlation"] if row is not None else None
    text = " ".join(f"{figure:.3f}" for figure in figures)
    return text if correlation is None else f"{text} ({correlation:+.2f})"


def _sizes(groups: Sequence[Row]) -> str:
    """A line a size: Best-1, Best-5 and Best-20 of a draft model in one cell."""
    drafts = list(dict.fromkeys(row["draft"] for row in groups))
    lines = []
    for size, share in dict.fromkeys((row["size"], row["share"]) for row in groups):
        at = {row["draft"]: row for row in groups if (row["size"], row["share"]) == (size, share)}
        chance = _three(at[drafts[0]], "random")
        lines.append([size or _fraction(share), chance, *(_three(at[draft], "best") for draft in drafts)])
    return output.table(["size", "random", *drafts], lines)


def _three(row: Row, side: str) -> str:
    return " ".join(output.number(row[f"{side}{k}"]) or "-" for k in KS)


def _fraction(share: float) -> str:
    """`1/16`; other shares as they are."""
    parts = round(1 / share)
    return f"1/{parts}" if abs(parts * share - 1) < 1e-9 else f"{share:g}"


def picture(groups: Sequence[Row]) -> Figure:
    """Best-1 against the draft's size, a column a group: shares above, numbers of programs below."""
    names = list(dict.fromkeys(row["group"] for row in groups))
    ways = [way for way in ("share", "size") if any(row[way] is not None for row in groups)]
    figure = empty_figure(4.2 * len(names) + 0.8, 3.4 * len(ways) + 0.6)
    axes = figure.subplots(len(ways), len(names), squeeze=False, sharey="row")
    for line, way in zip(axes, ways, strict=True):
        for axis, name in zip(line, names, strict=True):
            _curves(axis, [row for row in groups if row["group"] == name and row[way] is not None], way)
            axis.set(title=name, xlabel=f"{way} of the draft")
        line[0].set_ylabel("Best-1")
    handles = axes[0, 0].get_lines()
    figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)))
    return figure


def _curves(axis: Axes, rows: Sequence[Row], way: str) -> None:
    drafts = list(dict.fromkeys(row["draft"] for row in rows))
    for number, draft in enumerate(drafts):
        points = np.array(sorted((row[way], row["best1"]) for row in rows if row["draft"] == draft))
        axis.plot(*points.T, "o-", color=f"C{number}", label=draft, markersize=3)
    chance = np.array(sorted({(row[way], row["random1"]) for row in rows}))
    axis.plot(*chance.T, ":", color="0.3", label="random")
    axis.set_xscale("log", base=2)
    ticks = list(dict.fromkeys(row[way] for row in rows))
    axis.set_xticks(ticks, [str(tick) if way == "size" else _fraction(tick) for tick in ticks])
    axis.grid(alpha=0.3)
