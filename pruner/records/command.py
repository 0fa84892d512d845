"""`pruner records inspect|validate|convert`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pruner.errors import ConfigError

if TYPE_CHECKING:
    from pruner.records.reading import Progress, Recorded

INVALID = 1
# Characters of a line where the output is no terminal.
_FILE_WIDTH = 120
# Reasons to leave records of a task out that are printed.
_REASONS = 10


def run(words: Sequence[str]) -> int:
    """Runs the sub-command and returns the exit code: 1 where `validate` finds something."""
    given = _parser().parse_args(words)
    for path in given.paths:
        if not path.exists():
            raise ConfigError(f"{path} is not there. Give records: files or folders.")
    answer: int = given.command(given)
    return answer


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pruner records", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="inspect|validate|convert")
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    shared.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH",
        help="a MetaSchedule database folder, an Ansor log, a run's folder or journal, an .npz or .parquet "
        "file of ours, or a folder of those",
    )  # fmt: skip
    shared.add_argument(
        "--as", dest="machine", default="", metavar="NAME",
        help="what to call the machine that databases and Ansor logs are from: they do not name it",
    )  # fmt: skip
    shared.add_argument(
        "--import", dest="module", metavar="MODULE",
        help="a Python module to import first, which registers programs of Ansor's workload keys",
    )  # fmt: skip

    inspect = commands.add_parser("inspect", parents=[shared], help="counts and best programs by task")
    inspect.add_argument("--json", action="store_true", help="print JSON")
    inspect.set_defaults(command=_inspect)
    validate = commands.add_parser(
        "validate", parents=[shared], help="each record that cannot be used, with file, line and reason"
    )
    validate.set_defaults(command=_validate)
    convert = commands.add_parser(
        "convert", parents=[shared], help="write a TVM 0.27 database folder, or one .parquet or .npz file"
    )  # fmt: skip
    convert.add_argument("--device", default="", metavar="NAME", help="only the records of this machine")
    convert.add_argument("out", type=Path, metavar="OUT", help="a new folder, or a new .parquet or .npz file")
    convert.set_defaults(command=_convert)
    return parser


def _inspect(given: argparse.Namespace) -> int:
    recorded = _read(given)
    from pruner.records.inspection import document, tables, task_lines

    lines = task_lines(recorded)
    if given.json:
        sys.stdout.write(f"{json.dumps(document(recorded, lines), indent=2, allow_nan=False)}\n")
        return 0
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    console.print(tables(lines))
    console.print(recorded.report.summary(), soft_wrap=True)
    return 0


def _validate(given: argparse.Namespace) -> int:
    report = _read(given).report
    for reason, count in report.skipped.items():
        for example in report.examples[reason]:
            sys.stdout.write(f"{example}\n")
        if count > len(report.examples[reason]):
            sys.stdout.write(f"{count - len(report.examples[reason]):,} more: {reason}\n")
    sys.stdout.write(f"{report.seen:,} records, {sum(report.skipped.values()):,} cannot be used\n")
    return INVALID if report.skipped else 0


def _convert(given: argparse.Namespace) -> int:
    from pruner.records.convert import check_out, convert, total

    check_out(given.out)
    dataset, report = _read(given)
    if given.device:
        dataset = dataset.on(given.device)
    with progress_bars() as progress:
        left_out = convert(dataset, given.out, progress)
    sys.stdout.write(f"{report.summary()}\n")
    for task, reasons in left_out.items():
        common = sorted(reasons.items(), key=lambda item: -item[1])
        for reason, count in common[:_REASONS]:
            sys.stdout.write(f"{count:,} of {task} left out: {reason}\n")
        rest = sum(count for _, count in common[_REASONS:])
        if rest:
            sys.stdout.write(f"{rest:,} of {task} left out for {len(common) - _REASONS:,} other reasons\n")
    sys.stdout.write(f"{len(dataset) - total(left_out):,} records written to {given.out}\n")
    return 0


def _read(given: argparse.Namespace) -> Recorded:
    if given.module:
        try:
            importlib.import_module(given.module)
        except ImportError as error:
            raise ConfigError(
                f"--import {given.module}: {error}. Give a module that Python finds."
            ) from error
    from pruner.records.read import read

    with progress_bars() as progress:
        return read(given.paths, device=given.machine, progress=progress)


@contextmanager
def progress_bars() -> Iterator[Progress | None]:
    """A bar on stderr for each thing that is worked on, where stderr is a terminal; gone at the end."""
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        yield None
        return
    with Bars(console=console, transient=True) as bars:
        known: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            for name in [name for name in known if name != what]:
                bars.remove_task(known.pop(name))
            if what not in known:
                known[what] = bars.add_task(what)
            bars.update(known[what], completed=done, total=total or None)

        yield show
