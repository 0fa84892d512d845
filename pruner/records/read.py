"""Records of any origin: what a path holds is found out, read, and joined to one data set."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from pruner.errors import ConfigError
from pruner.records.database import RECORDS, WORKLOADS
from pruner.records.dataset import Dataset, RecordedTask
from pruner.records.journal import NAME
from pruner.records.reading import LineTooLong, Progress, Recorded, Report, lines, parse
from pruner.records.storage import SUFFIXES

__all__ = ["Recorded", "read"]

_ACCEPTED = (
    f"Accepted are a folder with {WORKLOADS} and {RECORDS} (plain or .gz), a run's folder or its {NAME}, an "
    "Ansor log (plain or .gz), an .npz or .parquet file of ours, and folders of those."
)
# Lines that may tell nothing before one must say what a file is.
_TRIED = 20


def read(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    device: str = "",
    programs: Mapping[str, Callable[..., Any]] | None = None,
    progress: Progress | None = None,
) -> Recorded:
    """All records of the paths: MetaSchedule databases, Ansor logs, journals, saved data sets and folders.

    Different tasks of one id are told apart by the folders they are from: `a100/conv2d`.

    Args:
        device: the machine that the records of databases and logs are from, which do not say it.
        programs: of workload keys in Ansor logs, besides the registered ones (see `ansor.register`).
        progress: called while it reads.

    Raises ConfigError for a path that is not there or holds no records, and as the readers do.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    sources: list[tuple[Path, str]] = []
    for path in map(Path, given):
        found = list(_sources(path))
        if not found:
            raise ConfigError(f"{path} holds no records. {_ACCEPTED}")
        sources += [each for each in found if each not in sources]
    readers: dict[str, Callable[[Path], Recorded]] = {
        "data set": _load,
        "journal": _journal,
        "metaschedule": lambda path: _metaschedule(path, device, progress),
        "ansor": lambda path: _ansor(path, device, programs, progress),
    }
    parts = _told_apart([(path, readers[kind](path)) for path, kind in sources])
    report = sum((recorded.report for _, recorded in parts), Report())
    return Recorded(Dataset.concat([recorded.dataset for _, recorded in parts]), report)


# A reader is imported when there is something for it: Ansor's needs TVM's operator library.
def _load(path: Path) -> Recorded:
    dataset = Dataset.load(path)
    return Recorded(dataset, Report(seen=len(dataset)))


def _journal(path: Path) -> Recorded:
    from pruner.records.journal_reader import read_journal

    return read_journal(path)


def _metaschedule(path: Path, device: str, progress: Progress | None) -> Recorded:
    from pruner.records.metaschedule import read_metaschedule

    return read_metaschedule(path, device=device, progress=progress)


def _ansor(
    path: Path, device: str, programs: Mapping[str, Callable[..., Any]] | None, progress: Progress | None
) -> Recorded:
    from pruner.records.ansor import read_ansor

    return read_ansor(path, device=device, programs=programs, progress=progress)


def _sources(path: Path) -> Iterator[tuple[Path, str]]:
    """What can be read at a path, and as what; a folder in the order of its names. Links to folders and
    hidden files inside a folder are passed over."""
    try:
        if not path.is_dir():
            kind = _kind(path)
            if kind:
                yield path, kind
        elif (path / NAME).is_file():
            yield path / NAME, "journal"
        elif any((path / f"{WORKLOADS}{packed}").is_file() for packed in ("", ".gz")):
            yield path, "metaschedule"
        else:
            for entry in sorted(path.iterdir()):
                inside = entry.is_dir() and not entry.is_symlink()
                if entry.name.startswith(".") or not (inside or entry.is_file()):
                    continue
                try:
                    yield from _sources(entry)
                except LineTooLong:  # no file of records
                    continue
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def _kind(path: Path) -> str:
    """What a file holds, by its name or the first line that tells; nothing when none does."""
    if not path.is_file():
        raise ConfigError(f"{path} is not there, or no file. {_ACCEPTED}")
    if path.suffix in SUFFIXES:
        return "data set"
    if path.name == NAME:
        return "journal"
    for _, line in islice(lines(path), _TRIED):
        try:
            value = parse(line)
        except ValueError:
            continue
        if isinstance(value, dict) and value.get("kind") == "header":
            return "journal"
        if isinstance(value, dict) and "i" in value and "r" in value:
            return "ansor"
    return ""


def _told_apart(parts: Sequence[tuple[Path, Recorded]]) -> list[tuple[Path, Recorded]]:
    """The parts, with as many of the folders they are from before the ids of different tasks of one id as
    tell them apart."""
    tasks: dict[str, list[tuple[Path, RecordedTask]]] = {}
    for path, recorded in parts:
        for task in recorded.dataset.tasks:
            tasks.setdefault(task.id, []).append((path, task))
    clashing = {
        id: named
        for id, named in tasks.items()
        if any(not named[0][1].same_program(other) for _, other in named[1:])
    }
    if not clashing:
        return list(parts)
    folders = {path: (path if path.is_dir() else path.parent).resolve().parts for path, _ in parts}
    deepest = max(map(len, folders.values()))
    depth = next((n for n in range(1, deepest) if _distinct(clashing.values(), folders, n)), deepest)
    return [
        (path, _renamed(recorded, clashing, "/".join(folders[path][-depth:]))) for path, recorded in parts
    ]


def _distinct(
    clashing: Iterable[Sequence[tuple[Path, RecordedTask]]],
    folders: Mapping[Path, tuple[str, ...]],
    depth: int,
) -> bool:
    """Whether the last `depth` folders tell the sources of tasks of one id apart."""
    return all(len({folders[path][-depth:] for path, _ in named}) == len(named) for named in clashing)


def _renamed(recorded: Recorded, ids: Container[str], folder: str) -> Recorded:
    """With the folder before those of its tasks' ids that are among `ids`."""

    def name(id: str) -> str:
        return f"{folder}/{id}" if id in ids else id

    dataset, report = recorded
    tasks = tuple(replace(task, id=name(task.id)) for task in dataset.tasks)
    by_task = {name(id): skipped for id, skipped in report.by_task.items()}
    return Recorded(replace(dataset, tasks=tasks), replace(report, by_task=by_task))
