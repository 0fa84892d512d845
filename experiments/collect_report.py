"""The README.md of a collected data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments import output
from experiments.collecting import CHECKED
from pruner.report import latency

_HOW = f"""\
`random.npz` holds programs drawn at random from the legal rows of MetaSchedule's design space (a
sketch, then each decision, all equally likely), `drafted.npz` programs drawn at random from what one
draft of `pruner tune` keeps. Both hold the same tasks; programs of a task are distinct over both files,
and were measured one after the other in random order, as `pruner tune` measures. The {CHECKED} fastest
of each task were compared with the untuned program. Latencies are medians in seconds; a failed program
has none. `x86-64` is code with baseline vectors (SSE2) on one core, `native` with this machine's
vectors on all its cores.

`pruner.records.read.read` reads both, or the folder, and `pruner records inspect` shows them."""


def readme(made: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]]) -> str:
    """The text. made: what `output.origin` says; blocks: what is told of each."""
    programs, failed = (sum(block[key] for block in blocks) for key in ("programs", "failed"))
    lines = [
        [
            block["task"],
            block["target"],
            block["threads"],
            block["random"],
            block["programs"] - block["random"],
            block["failed"] or None,
            block["compared"],
            *(latency(block[key]) for key in ("untuned_s", "median_s", "best_s")),
        ]
        for block in blocks
    ]
    columns = [
        "task",
        "target",
        "threads",
        "random",
        "drafted",
        "failed",
        "compared",
        "untuned",
        "median",
        "best",
    ]
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    seconds = sum(block["seconds"] for block in blocks)
    commits = ", ".join(dict.fromkeys(str(block["commit"]) for block in blocks))
    return "\n".join(
        [
            output.heading("collect", made),
            f"{programs:,} programs of {len({block['task'] for block in blocks})} tasks, {failed} of them "
            f"failed, measured in {seconds / 60:.0f} minutes by {commits}; {versions}.\n",
            f"{_HOW}\n",
            output.table(columns, lines),
            "",
        ]
    )
