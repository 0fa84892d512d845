"""What a run leaves for people: the tuning curve as a table and a picture, the summary, the final table."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from pruner import compiled
from pruner.figures import empty_figure, plain_ticks
from pruner.files import write_whole
from pruner.measure.clock import STAGES
from pruner.records.journal import Contents

if TYPE_CHECKING:
    import pandas as pd

CURVE = ("trial", "round", "elapsed_s", "latency_s", "best_s", "failure")


@dataclass(frozen=True)
class Summary:
    """A run in numbers, as summary.json holds it.

    baseline_s, best_s: latency of the untuned and of the best program in seconds, None where there is none.
    correct: whether the best program's output equals the untuned program's; None where it was not compared.
    candidates: explored, drafted, verified, measured; where there are some, replayed, because arrays do not
    express their sketch, and reference, of which a feature was read from the program. seconds: by stage, and
    their total.
    failures: failed trials by kind; their sum is `failed`. resources: of a run that times nothing, the least
    and the most registers, spilled bytes, … of the compiled programs (see compiled.NEEDS), else None.
    replayed: nothing was run; latencies are those that were recorded, and the seconds of `run` what trials
    cost then (see ReplayMeasurer). notes: what the user was told on the way.
    """

    workload: str
    target: dict[str, Any]
    device: str
    threads: int
    trials: int
    failed: int
    failures: dict[str, int]
    baseline_s: float | None
    best_s: float | None
    correct: bool | None
    candidates: dict[str, int]
    seconds: dict[str, float]
    versions: dict[str, str]
    resources: dict[str, dict[str, int]] | None = None
    replayed: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        contents: Contents,
        *,
        correct: bool | None,
        candidates: Mapping[str, int],
        seconds: Mapping[str, float],
        notes: Sequence[str] = (),
    ) -> Summary:
        """The summary of a journal and of what the journal does not hold."""
        trials = contents.confirmed()
        failures = Counter(trial.failure for trial in trials if trial.failure is not None)
        best = contents.best()
        header = contents.header
        return cls(
            workload=header.workload,
            target=header.target,
            device=header.device,
            threads=header.threads,
            trials=len(trials),
            failed=sum(failures.values()),
            failures=dict(sorted(failures.items())),
            baseline_s=contents.baseline.latency_s if contents.baseline else None,
            best_s=best.latency_s if best else None,
            correct=correct,
            candidates=dict(candidates),
            seconds=dict(seconds),
            versions=header.versions,
            resources=None if header.timed else compiled.ranges(contents),
            replayed=header.replayed,
            notes=tuple(notes),
        )

    def write(self, work_dir: str | os.PathLike[str]) -> None:
        """Writes summary.json."""
        text = json.dumps(asdict(self), indent=2, allow_nan=False)
        write_whole(Path(work_dir) / "summary.json", f"{text}\n")


def curve(contents: Contents) -> pd.DataFrame:
    """One row a trial, columns CURVE: latencies in seconds as measured in the run, NaN for a failure; best_s
    is the lowest so far, a program later found wrong not counted. Of a run that times nothing there is no
    latency, and what each program needs follows (compiled.COLUMNS)."""
    import pandas as pd

    wrong = {c.trial for c in contents.confirmations if c.failure == "wrong"}
    rows = [
        (t.trial, t.round, t.elapsed_s, t.latency_s, None if t.trial in wrong else t.latency_s, t.failure)
        for t in contents.trials
    ]
    frame = pd.DataFrame(rows, columns=list(CURVE))
    frame = frame.astype({"elapsed_s": float, "latency_s": float, "best_s": float, "failure": object})
    frame.loc[frame["trial"].isin(wrong), "failure"] = "wrong"
    # cummin leaves a gap at a failure: the best before it still stands.
    frame["best_s"] = frame["best_s"].cummin().ffill()
    return frame if contents.header.timed else frame.join(compiled.columns(contents))


def write_curve(work_dir: str | os.PathLike[str], contents: Contents, *, picture: bool = True) -> None:
    """Writes curve.csv and, as a picture, curve.png: best latency against trials and against seconds, or what
    programs need that were not timed."""
    frame = curve(contents)
    folder = Path(work_dir)
    frame.to_csv(folder / "curve.csv", index=False)
    if picture:
        _draw(frame, contents, folder / "curve.png")


def _draw(frame: pd.DataFrame, contents: Contents, path: Path) -> None:
    figure = empty_figure(9, 3.6)
    axes = figure.subplots(1, 2, sharey=contents.header.timed)
    if contents.header.timed:
        _draw_latencies(frame, contents, axes)
    else:
        compiled.draw(frame, axes)
    replayed = ", replayed from records" if contents.header.replayed else ""
    figure.suptitle(f"{contents.header.workload} on {contents.header.device}{replayed}")
    figure.savefig(path, dpi=120)


def _draw_latencies(frame: pd.DataFrame, contents: Contents, axes: Any) -> None:
    scale, unit = _unit(frame["best_s"].min() if frame["best_s"].notna().any() else None)
    baseline = contents.baseline.latency_s if contents.baseline else None
    for axis, column, label in zip(axes, ("trial", "elapsed_s"), ("trials", "seconds"), strict=True):
        axis.plot(frame[column], frame["latency_s"] * scale, ".", color="0.7", label="measured")
        axis.step(frame[column], frame["best_s"] * scale, where="post", color="C0", label="best")
        if baseline is not None:
            axis.axhline(baseline * scale, color="C3", linestyle="--", label="untuned")
        axis.set_xlabel(label)
        axis.set_xlim(left=0)
        axis.grid(alpha=0.3)
    if frame["latency_s"].notna().any():
        axes[0].set_yscale("log")
        plain_ticks(axes[0].yaxis)
    axes[0].set_ylabel(f"latency ({unit})")
    axes[1].legend()


def final_table(summary: Summary) -> Table:
    """The run's result: latencies and speed-up, or what the compiled programs need; trials, failures by kind,
    seconds by stage."""
    table = Table(title=f"{summary.workload} on {summary.device}", show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column()
    if summary.resources is None:
        if not summary.replayed:
            table.add_row("untuned", latency(summary.baseline_s))
        table.add_row("best", latency(summary.best_s))
        if summary.baseline_s and summary.best_s:
            table.add_row("speed-up", f"{summary.baseline_s / summary.best_s:.2f}x")
        if summary.replayed:
            table.add_row("replayed", "nothing was run: latencies are recorded, run seconds simulated")
        else:
            verdict = "equals the untuned program's" if summary.correct else "not compared"
            table.add_row("output", verdict)
    else:
        needs = [compiled.words(name, summary.resources) for name in summary.resources]
        table.add_row("compiled", "\n".join([str(summary.trials - summary.failed), *needs]))
        table.add_row("timed", "none")
    table.add_row("trials", str(summary.trials))
    kinds = ", ".join(f"{count} {kind}" for kind, count in summary.failures.items())
    table.add_row("failed", kinds or "none")
    table.add_row("candidates", ", ".join(f"{n:,} {name}" for name, n in summary.candidates.items()))
    total = summary.seconds.get("total", 0.0)
    spent = {stage: summary.seconds[stage] for stage in STAGES if summary.seconds.get(stage)}
    shares = [f"{stage} {s:.1f} s ({s / total:.0%})" for stage, s in spent.items() if total]
    table.add_row("time", "\n".join([*shares, f"total {total:.1f} s"]))
    return table


def closing(summary: Summary, contents: Contents, work_dir: str | os.PathLike[str]) -> str:
    """What to do with the run's result, and what there is to know about it."""
    if summary.resources:
        return _closing_untimed(contents, work_dir)
    if summary.best_s is None:
        failed = [trial for trial in contents.confirmed() if trial.failure is not None]
        why = f" Trial {failed[0].trial} ({failed[0].failure}): {failed[0].message}" if failed else ""
        if summary.resources is not None:
            return f"No candidate compiled.{why}"
        if summary.replayed:
            return f"All programs that were tried failed when they were recorded.{why}"
        return f"No candidate ran; the untuned program is all there is.{why}"
    if summary.replayed:
        return f"What was replayed is in {Path(work_dir).resolve()}."
    command = f"Run the result: {load_command(work_dir, summary.threads)}"
    if summary.baseline_s is not None and summary.baseline_s < summary.best_s:
        return f"No candidate is faster than the untuned program.\n{command}"
    return command


def _closing_untimed(contents: Contents, work_dir: str | os.PathLike[str]) -> str:
    best = compiled.best_by_draft(contents)
    expected = ""
    if best is not None:
        expected = f" The draft expects most of trial {best.trial} ({latency(best.draft_s)})."
    return (
        f"Nothing was timed, so there is no best program and no database.{expected}\nWhat every program "
        f"needs is in {Path(work_dir).resolve() / 'curve.csv'}, and with its schedule in journal.jsonl there."
    )


def load_command(work_dir: str | os.PathLike[str], threads: int) -> str:
    """A shell line whose Python loads the best program and runs it with the threads it was tuned for."""
    folder = str(Path(work_dir).resolve())
    code = (
        f"from pruner.records.database import load; best = load({folder!r}); "
        "arguments = best.arguments(); best(*arguments); print(arguments[-1])"
    )
    return f"TVM_NUM_THREADS={threads} python -c {shlex.quote(code)}"


def latency(seconds: float | None) -> str:
    """Seconds in the unit that suits them, '-' for none."""
    if seconds is None:
        return "-"
    scale, unit = _unit(seconds)
    return f"{seconds * scale:.4g} {unit}"


def _unit(seconds: float | None) -> tuple[float, str]:
    """The factor and name of the unit that shows this latency well."""
    if seconds is None or seconds >= 1:
        return 1.0, "s"
    return (1e3, "ms") if seconds >= 1e-3 else (1e6, "us")
