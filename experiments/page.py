"""Finished studies on one page: their tables and pictures, and the paper's figures beside ours."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments import ablation, output, paper
from experiments.ablation_draw import picture
from experiments.ablation_report import text
from experiments.ablation_summary import combined
from experiments.settings import CONF
from pruner.errors import ConfigError
from pruner.files import write_whole


def studies(folder: Path) -> list[Path]:
    """The JSON files of the finished studies in a folder, or else in the folders in it."""
    names = [f"{path.stem}.json" for path in sorted(CONF.glob("*.yaml"))]
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())] if folder.is_dir() else []
    found = [place / name for place in places for name in names if (place / name).is_file()]
    own = [path for path in found if path.parent == folder]
    # What a page has put together before is made anew: more jobs may have ended.
    below = [path for path in found if path.parent != folder]
    return below if _are_jobs(below) else own or found


def page(folders: Sequence[Path], target: Path) -> str:
    """Writes the page and returns it. Ablations in the folders of one `-m` become one table. Raises
    ConfigError for a folder without a finished study, and for a file that is none."""
    parts = []
    beside: list[tuple[str, ...]] = []
    for folder in folders:
        found = studies(folder)
        if not found:
            raise ConfigError(f"{folder} holds no finished study. Give the folder that a study printed last.")
        if _are_jobs([path for path in found if path.parent != folder]):
            with _understood(folder):
                found = [_together(folder, found)]
        for path in found:
            parts.append(_section(path, target))
            with _understood(path):
                beside += paper.beside(path.stem, _document(path))
    columns = ("what", "in the paper", "here", "how it was measured here")
    lines = [f"# Studies\n\n{len(parts)} finished.\n"]
    if beside:
        lines.append(f"## The paper beside ours\n\n{output.table(columns, beside)}\n")
    whole = "\n".join([*lines, *parts])
    try:
        write_whole(target, whole)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}. Choose another place.") from error
    return whole


def _are_jobs(found: Sequence[Path]) -> bool:
    """Whether these are of one `-m`, which numbers its folders."""
    return bool(found) and all(path.stem == ablation.NAME and path.parent.name.isdigit() for path in found)


def _together(folder: Path, found: Sequence[Path]) -> Path:
    """The ablation that the jobs of a sweep come to, written into the folder of the sweep."""
    document = combined([_document(path) for path in found])
    output.write(
        folder,
        ablation.NAME,
        document=document,
        rows=[ablation.flat(row) for row in document["results"]],
        text=text(ablation.NAME, document),
        figure=picture(document),
    )
    return folder / f"{ablation.NAME}.json"


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
        found["command"], found["machine"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{path} is no study's ({error!r}). Make it again.") from error
    return dict(found)


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    """Around what takes a study's document for whole."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ConfigError(f"{path} holds another study than this release makes ({error!r}).") from error


def _section(path: Path, target: Path) -> str:
    """The study's own text, a heading lower, and its picture."""
    try:
        own = path.with_suffix(".md").read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"{path.with_suffix('.md')} beside {path.name} cannot be read ({error}). Make the study again."
        ) from error
    lowered = re.sub(r"^#", "##", own, flags=re.MULTILINE)
    drawn = path.with_suffix(".png")
    linked = os.path.relpath(drawn, target.parent)
    return f"{lowered}\n![{path.stem}]({linked})\n" if drawn.is_file() else lowered
