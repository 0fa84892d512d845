"""What a run shows while it goes on: a live panel on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO, cast

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pruner.measure.clock import STAGES
from pruner.report import Summary, final_table, latency
from pruner.stream import LastingStream

if TYPE_CHECKING:
    from pruner.workload import Task


@dataclass(frozen=True)
class RoundReport:
    """Where a run stands after a round.

    trials: measured so far, of `budget`. best_s: seconds, None before the first valid one. gflops: of the
    best, 10^9 operations per second. failures: trials so far by kind. seconds: so far by stage, and `total`.
    compiled: of a run that times nothing, what it shows instead of the best (see compiled.so_far).
    """

    round: int
    trials: int
    budget: int
    best_s: float | None
    gflops: float | None
    failures: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    compiled: str = ""


class Display:
    """Shows nothing; the base of those that do."""

    def start(self, task: Task, settings: Mapping[str, object]) -> None:
        """The run begins; `settings` are shown as they are."""

    def round(self, report: RoundReport) -> None:
        """A round is over."""

    def message(self, text: str) -> None:
        """Something the user should know."""

    def finish(self, summary: Summary | None = None, closing: str = "") -> None:
        """The run is over: its table, if it got that far, and a closing line. Safe to call twice."""


class PlainDisplay(Display):
    """One line per event."""

    def __init__(self, stream: TextIO | None = None) -> None:
        # Markup and highlighting off: brackets in a path or a message are text.
        lasting = cast(TextIO, LastingStream(stream or sys.stdout))
        self.console = Console(file=lasting, markup=False, highlight=False, soft_wrap=True)

    def start(self, task: Task, settings: Mapping[str, object]) -> None:
        self.console.print(_heading(task, settings))

    def round(self, report: RoundReport) -> None:
        parts = [
            f"round {report.round}",
            f"trials {report.trials}/{report.budget}",
            report.compiled or f"best {_best(report)}",
            f"{report.seconds.get('total', 0.0):.1f} s",
        ]
        if report.failures:
            parts.append(_failures(report))
        self.console.print("  ".join(parts))

    def message(self, text: str) -> None:
        self.console.print(text)

    def finish(self, summary: Summary | None = None, closing: str = "") -> None:
        if summary is not None:
            self.console.print(final_table(summary), soft_wrap=False)
        if closing:
            self.console.print(closing)


class LiveDisplay(PlainDisplay):
    """A panel that is redrawn in place; messages scroll above it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._live: Live | None = None

    def start(self, task: Task, settings: Mapping[str, object]) -> None:
        super().start(task, settings)
        waiting = Text("starting: space, device and workers", style="dim")
        self._live = Live(waiting, console=self.console, refresh_per_second=4, transient=True)
        self._live.start()

    def round(self, report: RoundReport) -> None:
        if self._live is None:
            super().round(report)
        else:
            self._live.update(panel(report), refresh=True)

    def finish(self, summary: Summary | None = None, closing: str = "") -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        super().finish(summary, closing)


def make_display(stream: TextIO | None = None) -> Display:
    """Live on a terminal, plain lines elsewhere, nothing where there is no standard output."""
    out = stream or sys.stdout
    if out is None:
        return Display()
    return LiveDisplay(out) if Console(file=out).is_terminal else PlainDisplay(out)


def panel(report: RoundReport) -> Group:
    """The live view of a round: where the run stands, and where its time went as bars."""
    head = Table.grid(padding=(0, 2))
    head.add_row("round", str(report.round))
    done = ProgressBar(total=report.budget, completed=report.trials, width=30)
    head.add_row("trials", done, f"{report.trials}/{report.budget}")
    if report.compiled:
        head.add_row("", report.compiled)
    else:
        head.add_row("best", _best(report))
    if report.failures:
        head.add_row("failed", _failures(report))
    total = report.seconds.get("total", 0.0)
    times = Table.grid(padding=(0, 2))
    for name in STAGES:
        seconds = report.seconds.get(name, 0.0)
        share = seconds / total if total else 0.0
        times.add_row(
            name, ProgressBar(total=1.0, completed=share, width=30), f"{seconds:7.1f} s", f"{share:4.0%}"
        )
    times.add_row("total", "", f"{total:7.1f} s")
    return Group(head, Text(), times)


def _heading(task: Task, settings: Mapping[str, object]) -> str:
    shown = "  ".join(f"{key}={value}" for key, value in settings.items())
    return f"tuning {task.name}  {shown}".rstrip()


def _best(report: RoundReport) -> str:
    if report.gflops is None:
        return latency(report.best_s)
    return f"{latency(report.best_s)} ({report.gflops:.1f} GFLOP/s)"


def _failures(report: RoundReport) -> str:
    return "failed: " + ", ".join(f"{count} {kind}" for kind, count in report.failures.items())
