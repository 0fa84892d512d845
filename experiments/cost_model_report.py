"""How cost_model's figures are shown: lines for the terminal, tables, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import output
from experiments.cost_model_rows import ALL, Result, figures
from experiments.entries import RANDOM
from experiments.intervals import cell, shown, verdict
from experiments.programs import TaskPrograms
from experiments.ranking import FIGURES
from pruner.figures import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLES = dict(zip(FIGURES, ("Top-1", "Top-5", "median", "pairs", "rank correlation"), strict=True))
_SPLIT = {
    "task": "tasks that were held out, {folds} folds",
    "within": "half of every task's programs, drawn at random; the other half trains",
    "time": "half of every task's programs, measured last; the first half trains",
}
NOTES = """\
Top-k: the best latency over the best one among the k programs with the highest scores, weighted over tasks as
the network runs them (TenSet's definition). median: over tasks, of their own Top-1. pairs: the share of the
pairs of programs that stand in the right order. Rank correlations are Spearman's. The last two are means over
tasks. random: the exact expectation of a random order. Means over seeds; in brackets the 95 % bootstrap
interval over tasks and seeds; better or worse: it excludes no difference. fit: seconds of one fit; predict:
of scoring a fold's programs; memory: the most that the process held, with all that was there before."""


def described(task: TaskPrograms) -> str:
    """A task's programs as a line for the terminal."""
    failed = int(np.isnan(task.latency_s).sum())
    parts = [f"{task.name}  {task.group}  {len(task)} programs"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{task.refused} that TVM refuses: left out"] if task.refused else []
    parts += [f"{task.unusable} records of no space: left out"] if task.unusable else []
    return "  ".join([*parts, f"features {task.features_s:.1f} s"])


def said(found: Sequence[Result]) -> str:
    """A verifier's results with one seed as a line: Top-1 by group."""
    verifier, seed = found[0].verifier, found[0].seed
    groups = figures(found)[verifier]
    return f"{verifier}  Top-1: " + "  ".join(
        f"{g} {output.number(of[seed]['top1'])}" for g, of in groups.items()
    )


def report(document: Mapping[str, Any]) -> str:
    """The tables and what they mean."""
    summary = document["summary"]
    count = len({unit["fold"] for unit in document["units"]})
    what = _SPLIT[document["split"]].format(folds=count)
    share = document["train_fraction"]
    parts = [
        f"Verifiers on records of {document['device']}: {document['programs']:,} programs, "
        f"{document['failed']:,} of them failed. Scored: {what}"
        f"{'' if share == 1 else f', {share:g} of the training programs'}; seeds "
        f"{', '.join(map(str, document['seeds']))}.\n",
        ranks(document),
    ]
    if document["against"]:
        ours = next(name for name in summary if name != RANDOM)
        parts += [
            f"\n{ours} less each other verifier, on the same tasks and seeds:\n",
            _against(document["against"]),
        ]
    parts += ["\nTop-1 by task, mean over seeds:\n", _tasks(document["results"])]
    if any(unit["tried"] for unit in document["units"]):
        parts += ["\nSettings that were chosen in validation:\n", _chosen(document["units"])]
    parts.append(f"\n{NOTES}")
    return "\n".join([*parts, *_remarks(document)])


def _remarks(document: Mapping[str, Any]) -> list[str]:
    units = document["units"]
    late = [unit for unit in units if unit["fit_s"] > document["fit_seconds"]]
    made = {str(unit["commit"]) for unit in units}
    commits = sorted(made - {str(document["commit"])})
    counts = {u["verifier"]: max(1, len(u["tried"])) for u in units if u["trained"]}
    fewer = [f"{name} ({n})" for name, n in counts.items() if n < document["settings"]]
    said = []
    if fewer:
        said.append(
            f"Fewer settings to choose from than the others' {document['settings']}: {', '.join(fewer)}."
        )
    if document["left_out"]:
        said.append(f"Left out, without a valid record to score: {', '.join(document['left_out'])}.")
    for label, names in document["elsewhere"].items():
        if names:
            said.append(f"{label} was trained on these for another target: {', '.join(names)}.")
    if document["unusable"]:
        said.append(f"{document['unusable']} records are rows of no space and were left out.")
    if document["refused"]:
        said.append(f"{document['refused']} programs that TVM no longer makes were left out.")
    if late:
        names = ", ".join(dict.fromkeys(unit["verifier"] for unit in late))
        said.append(
            f"{len(late)} fits of {names} took longer than the {document['fit_seconds']:g} s they have."
        )
    if commits:
        said.append(f"Some models were fitted before, by {', '.join(commits)}.")
    if any(commit.endswith("-dirty") for commit in made):
        said.append("Some models were fitted by code that is in no commit.")
    return [f"\n{line}" for line in said]


def ranks(document: Mapping[str, Any]) -> str:
    """How the verifiers rank, a line a group and verifier."""
    summary, units = document["summary"], document["units"]
    lines = []
    for group in _groups(summary):
        for verifier, of in summary.items():
            cells = [cell(of[group][name]) for name in FIGURES]
            mine = [unit for unit in units if unit["verifier"] == verifier]
            costs: list[str | None] = [None] * 3
            if mine and group == ALL:
                peak = max(unit["peak_bytes"] for unit in mine)
                costs = [
                    *(f"{of[name]['mean']:.2f} s" for name in ("fit_s", "predict_s")),
                    f"{peak / 2**20:.0f} MB",
                ]
            lines.append([group, verifier, *cells, *costs])
    return output.table(["group", "verifier", *_TITLES.values(), "fit", "predict", "memory"], lines)


def _against(found: Mapping[str, Any]) -> str:
    lines = [
        [other, group, *(f"{shown(of[name], 3)} {verdict(of[name], 0.0)}" for name in FIGURES)]
        for other, groups in found.items()
        for group, of in groups.items()
    ]
    return output.table(["against", "group", *_TITLES.values()], lines)


def _tasks(results: Sequence[Mapping[str, Any]]) -> str:
    """A line a task, a column a verifier."""
    verifiers = list(dict.fromkeys(row["verifier"] for row in results))
    lines = []
    for task in dict.fromkeys(row["task"] for row in results):
        same = [row for row in results if row["task"] == task]
        first = same[0]
        cells = [f"{np.mean([r['top1'] for r in same if r['verifier'] == v]):.3f}" for v in verifiers]
        lines.append([task, first["group"], f"{first['weight']:g}", first["programs"], *cells])
    return output.table(["task", "group", "weight", "programs", *verifiers], lines)


def _chosen(units: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        [u["verifier"], u["seed"], u["fold"], " ".join(u["chosen"]) or "its own", f"{u['choose_s']:.1f} s"]
        for u in units
    ]
    return output.table(["verifier", "seed", "fold", "settings", "choosing"], lines)


def _groups(summary: Mapping[str, Any]) -> list[str]:
    return list(summary[RANDOM])


def picture(summary: Mapping[str, Any]) -> Figure:
    """Top-1 and Top-5, a panel each: a bar a verifier and group, what is expected of a random order
    across."""
    groups = _groups(summary)
    verifiers = [name for name in summary if name != RANDOM]
    figure = empty_figure(1.2 + len(groups) * (0.6 + 0.5 * max(1, len(verifiers))) * 2, 3.6)
    axes = figure.subplots(1, 2, squeeze=False, sharey=True)[0]
    width = 0.8 / max(1, len(verifiers))
    for axis, name in zip(axes, ("top1", "top5"), strict=True):
        places = np.arange(len(groups))
        for number, verifier in enumerate(verifiers):
            found = [summary[verifier][group][name] for group in groups]
            means = np.array([np.nan if one["mean"] is None else one["mean"] for one in found])
            ends = np.array(
                [
                    (one["low"], one["high"]) if one["low"] is not None else (mean, mean)
                    for one, mean in zip(found, means, strict=True)
                ],
                dtype=float,
            )
            at = places - 0.4 + width * (number + 0.5)
            axis.bar(at, means, width, label=verifier, yerr=np.abs(ends.T - means), color=f"C{number}")
        chance = [summary[RANDOM][group][name] for group in groups]
        known = [(i, value) for i, value in enumerate(chance) if value is not None]
        for i, value in known:
            label = RANDOM if i == known[0][0] else None
            axis.plot([i - 0.42, i + 0.42], [value, value], ":", color="0.2", label=label)
        axis.set_xticks(places, groups)
        axis.set_title(_TITLES[name])
        axis.grid(alpha=0.3, axis="y")
    axes[0].set_ylim(bottom=_floor(summary, groups), top=1.005)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(6, len(labels)))
    return figure


def _floor(summary: Mapping[str, Any], groups: Sequence[str]) -> float:
    """A little below the verifiers' lowest, so that differences near 1 can be seen."""
    means = [of[group]["top1"]["mean"] for name, of in summary.items() if name != RANDOM for group in groups]
    return max(0.0, min((mean for mean in means if mean is not None), default=0.1) - 0.1)
