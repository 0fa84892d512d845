"""How pre-trained checkpoints are shown: a line for the terminal, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments import output

_FIGURES = ("top1", "top5", "pairwise", "rank_correlation", "random_top1")
NOTES = """\
held out: a tenth of every task's programs, which the model has not seen. left out: tasks that it was not
trained on. Top-k: the best latency over the best one among the k programs with the highest scores, weighted
over tasks as the network runs them; random: what is expected of a random order."""


def table_row(name: str, made: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint as a row of plain values. made: of its header."""
    row = {
        "name": name,
        "tasks": len(made["tasks"]),
        "programs": made["programs"],
        "fit_s": made["fit_s"],
        "commit": made["commit"],
    }
    for where in ("held_out", "left_out"):
        of = made["metrics"].get(where, {})
        row |= {f"{where}_{figure}": of.get(figure) for figure in _FIGURES}
    return row


def said(row: Mapping[str, Any]) -> str:
    """The row as a line for the terminal."""
    parts = [f"{row['programs']:,} programs of {row['tasks']} tasks, fitted in {row['fit_s']:.1f} s"]
    for where, word in (("held_out", "held out"), ("left_out", "left out")):
        if row[f"{where}_top1"] is not None:
            chance = output.number(row[f"{where}_random_top1"])
            parts.append(f"{word}: Top-1 {output.number(row[f'{where}_top1'])} (random {chance})")
    return "  ".join(parts)


def report(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table and what it means."""
    lines = []
    for row in rows:
        for where, word in (("held_out", "held out"), ("left_out", "left out")):
            if row[f"{where}_top1"] is not None:
                figures = [output.number(row[f"{where}_{figure}"]) for figure in _FIGURES]
                lines.append([row["name"], row["tasks"], row["programs"], word, *figures])
    titles = ["Top-1", "Top-5", "pairs", "rank correlation", "random Top-1"]
    return f"{output.table(['checkpoint', 'tasks', 'programs', 'scored', *titles], lines)}\n\n{NOTES}"
