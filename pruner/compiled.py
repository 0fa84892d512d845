"""What a run leaves for people that compiles its candidates and times none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.analyzer.draft import DraftModel, NoDraft, draft_scores
from pruner.measure.clock import stage
from pruner.records.journal import Contents, Trial
from pruner.search.candidate import Candidate, RowCandidate
from pruner.search.population import Population

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# The needs of a program, as Resources has them, and what they are called in a table.
NEEDS = {
    "registers": "registers",
    "spill_bytes": "bytes spilled",
    "shared_bytes": "bytes of shared memory",
    "stack_bytes": "bytes of stack",
    "cubin_bytes": "bytes of machine code",
}
COLUMNS = ("draft_s", *NEEDS)


def predicted(draft: DraftModel, candidates: Sequence[Candidate]) -> list[float | None]:
    """The draft's seconds of each candidate; None where it knows none, and for one that is no row."""
    rows = [candidate for candidate in candidates if isinstance(candidate, RowCandidate)]
    known: dict[Candidate, float] = {}
    if rows and not isinstance(draft, NoDraft):
        ids = np.array([row.sketch_id for row in rows], dtype=np.int64)
        population = Population(rows[0].space, ids, np.stack([row.row for row in rows]))
        with stage("draft"):
            known = dict(zip(rows, draft_scores(draft, population).tolist(), strict=True))
    return [seconds if math.isfinite(seconds := known.get(one, math.inf)) else None for one in candidates]


def ranges(contents: Contents) -> dict[str, dict[str, int]]:
    """The least and the most of each need over the compiled programs; empty when there is none."""
    needs = [resources for _, resources in _compiled(contents)]
    if not needs:
        return {}
    return {
        name: {"low": min(need[name] for need in needs), "high": max(need[name] for need in needs)}
        for name in NEEDS
    }


def best_by_draft(contents: Contents) -> Trial | None:
    """The compiled program of which the draft model expects most."""
    known = [trial for trial, _ in _compiled(contents) if trial.draft_s is not None]
    return min(known, key=lambda trial: trial.draft_s or 0.0, default=None)


def so_far(contents: Contents) -> str:
    """Where the run stands, in one line."""
    needs = [resources for _, resources in _compiled(contents)]
    if not needs:
        return "compiled 0"
    spilling = sum(need["spill_bytes"] > 0 for need in needs)
    parts = [f"compiled {len(needs)}", words("registers", ranges(contents)), f"{spilling} spilling"]
    best = best_by_draft(contents)
    if best is not None:
        # The run's seconds follow, which are not the trial's.
        parts.append(f"trial {best.trial} best by the draft")
    return "  ".join(parts)


def words(name: str, found: dict[str, dict[str, int]]) -> str:
    """One need's range, such as `32 to 118 registers`."""
    low, high = found[name]["low"], found[name]["high"]
    return f"{low:,} {NEEDS[name]}" if low == high else f"{low:,} to {high:,} {NEEDS[name]}"


def columns(contents: Contents) -> pd.DataFrame:
    """One row a trial, columns COLUMNS; NA for a failure."""
    import pandas as pd

    rows = [{"draft_s": trial.draft_s, **(trial.resources or {})} for trial in contents.trials]
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype(dict.fromkeys(NEEDS, "Int64"))
    return frame.astype({"draft_s": float})


def draw(frame: pd.DataFrame, axes: tuple[Axes, Axes]) -> None:
    """Registers and shared memory of every trial, those that spill marked."""
    spills = (frame["spill_bytes"] > 0).fillna(False)
    for axis, column in zip(axes, ("registers", "shared_bytes"), strict=True):
        axis.plot(frame["trial"], frame[column], ".", color="C0", label="compiled")
        axis.plot(frame["trial"][spills], frame[column][spills], "x", color="C3", label="spills registers")
        axis.set_xlabel("trials")
        axis.set_ylabel(NEEDS[column])
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[1].legend()


def _compiled(contents: Contents) -> Iterator[tuple[Trial, dict[str, Any]]]:
    return ((trial, trial.resources) for trial in contents.trials if trial.resources is not None)
