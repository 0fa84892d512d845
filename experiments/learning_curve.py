"""How much data verifiers need: the jobs of `experiments.cost_model --multirun train_fraction=...` as one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import output
from experiments.cost_model_rows import ALL
from experiments.entries import RANDOM
from experiments.intervals import cell, plain_interval, shown, verdict
from experiments.ranking import FIGURES
from pruner.errors import ConfigError
from pruner.figures import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE = "cost_model.json"
# What must be the same in all jobs, so that their shares of the records are all that differs.
_SAME = (
    "commit",
    "device",
    "split",
    "seeds",
    "programs",
    "failed",
    "train_failed",
    "settings",
    "fit_seconds",
)

NOTES = """\
Top-1 by the share of every task's training programs that a verifier has, random as the exact expectation of a
random order. Means over seeds; in brackets 95 % of the means of seeds drawn with replacement, of three seeds
their range; better or worse means that the bracket excludes no difference."""

Row = dict[str, Any]


def learning_curve(folder: Path, study: str, made: Mapping[str, Any]) -> str:
    """Writes the study's files into the folder of the jobs and returns its tables. Raises ConfigError for
    jobs that differ in more than their share."""
    documents = _documents(folder)
    rows = [
        {"train_fraction": share, **row}
        for share, document in documents.items()
        for row in document["groups"]
    ]
    last = next(reversed(documents.values()))
    made = {**made, "machine": last["machine"]}
    curves = _curves(rows)
    largest = next(reversed(documents))
    less = _less_data(rows)
    text = "\n".join(
        [
            output.heading(study, made),
            f"Verifiers on records of {last['device']}, split={last['split']}: Top-1\n",
            _table(curves),
            *(
                [
                    "\nThe first verifier with a share of the training programs less the others with "
                    f"{largest:g} of them, seed by seed:\n",
                    _less(less),
                ]
                if less
                else []
            ),
            f"\n{NOTES}",
        ]
    )
    document = {**made, "split": last["split"], "device": last["device"], "curves": curves, "less_data": less}
    output.write(folder, study, document=document, rows=rows, text=text, figure=picture(curves))
    return text


def _documents(folder: Path) -> dict[float, Mapping[str, Any]]:
    """By share of the training programs, ascending."""
    found: dict[float, Mapping[str, Any]] = {}
    for path in sorted(folder.glob(f"*/{FILE}")):
        try:
            document = json.loads(path.read_text("utf-8"))
            share = float(document["train_fraction"])
            _ = [document[name] for name in ("machine", *_SAME)], [row["top1"] for row in document["groups"]]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{path} is no result of cost_model ({error!r}).") from error
        other = next(iter(found.values()), document)
        differing = [f"{n}={document[n]} and {other[n]}" for n in _SAME if document[n] != other[n]]
        if share in found:
            differing.append(f"two with train_fraction={share:g}")
        if differing:
            raise ConfigError(
                f"the jobs in {folder} differ in more than train_fraction: {'; '.join(differing)}. A "
                "learning curve is of jobs that differ in that alone."
            )
        found[share] = document
    return dict(sorted(found.items()))


def _curves(rows: Sequence[Row]) -> list[Row]:
    """FIGURES as {mean, low, high} by group, verifier and share; of a random order plain numbers."""
    made = []
    for group in sorted({row["group"] for row in rows}, key=lambda name: (name == ALL, name)):
        for verifier in dict.fromkeys(row["verifier"] for row in rows):
            for share in dict.fromkeys(row["train_fraction"] for row in rows):
                same = _of(rows, group, verifier, share)
                over = {
                    name: plain_interval([row[name] for row in same if row[name] is not None])
                    for name in FIGURES
                }
                figures: Row = {n: o["mean"] for n, o in over.items()} if verifier == RANDOM else dict(over)
                if same:
                    made.append({"group": group, "verifier": verifier, "train_fraction": share, **figures})
    return made


def _less_data(rows: Sequence[Row]) -> list[Row]:
    """Top-1 of the first verifier with each smaller share, less that of every other one with the largest."""
    ours, *others = list(dict.fromkeys(row["verifier"] for row in rows if row["verifier"] != RANDOM)) or [
        RANDOM
    ]
    *shares, largest = dict.fromkeys(row["train_fraction"] for row in rows)
    made = []
    for other in others:
        for share in shares:
            for group in dict.fromkeys(row["group"] for row in rows):
                theirs = {row["seed"]: row["top1"] for row in _of(rows, group, other, largest)}
                mine = {row["seed"]: row["top1"] for row in _of(rows, group, ours, share)}
                both = [(mine[s], theirs[s]) for s in mine if None not in (mine[s], theirs.get(s))]
                made.append(
                    {
                        "verifier": ours,
                        "train_fraction": share,
                        "against": other,
                        "group": group,
                        "top1": plain_interval([m - t for m, t in both]),
                    }
                )
    return made


def _of(rows: Sequence[Row], group: str, verifier: str, share: float) -> list[Row]:
    wanted = (group, verifier, share)
    return [row for row in rows if (row["group"], row["verifier"], row["train_fraction"]) == wanted]


def _table(curves: Sequence[Row]) -> str:
    """A line a group and verifier, a column a share."""
    shares = list(dict.fromkeys(row["train_fraction"] for row in curves))
    lines = []
    for group, verifier in dict.fromkeys((row["group"], row["verifier"]) for row in curves):
        at = {
            row["train_fraction"]: row["top1"]
            for row in curves
            if (row["group"], row["verifier"]) == (group, verifier)
        }
        cells = [cell(at.get(share)) for share in shares]
        lines.append([group, verifier, *cells])
    return output.table(["group", "verifier", *(f"{share:g}" for share in shares)], lines)


def _less(less: Sequence[Row]) -> str:
    lines = [
        [
            row["verifier"],
            f"{row['train_fraction']:g}",
            row["against"],
            row["group"],
            f"{shown(row['top1'], 3)} {verdict(row['top1'], 0.0)}",
        ]
        for row in less
    ]
    return output.table(["verifier", "share", "against", "group", "Top-1"], lines)


def picture(curves: Sequence[Row]) -> Figure:
    """Top-1 against the share, a panel a group: the mean over seeds in its interval."""
    groups = list(dict.fromkeys(row["group"] for row in curves))
    verifiers = [name for name in dict.fromkeys(row["verifier"] for row in curves) if name != RANDOM]
    figure = empty_figure(3.2 * len(groups) + 0.8, 3.6)
    axes = figure.subplots(1, len(groups), squeeze=False, sharey=True)[0]
    shares = list(dict.fromkeys(row["train_fraction"] for row in curves))
    for axis, group in zip(axes, groups, strict=True):
        for number, verifier in enumerate(verifiers):
            points = [
                (
                    row["train_fraction"],
                    mean,
                    *(mean if end is None else end for end in (one["low"], one["high"])),
                )
                for row in curves
                if (row["group"], row["verifier"]) == (group, verifier)
                and (mean := (one := row["top1"])["mean"]) is not None
            ]
            if points:
                x, mean, low, high = np.array(points).T
                axis.plot(x, mean, "o-", color=f"C{number}", label=verifier, markersize=3)
                axis.fill_between(x, low, high, color=f"C{number}", alpha=0.2, linewidth=0)
        axis.set_xscale("log")
        axis.set_xticks(shares, [f"{share:g}" for share in shares])
        axis.minorticks_off()
        axis.set(title=group, xlabel="share of the training programs")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("Top-1")
    handles = axes[0].get_lines()
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)))
    return figure
