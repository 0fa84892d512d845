"""What a study leaves in its run folder, NAME.json, .csv, .md and .png, and where they come from."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pruner.errors import ConfigError
from pruner.files import draft_of, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def say(line: str) -> None:
    """A line of progress, at once."""
    print(line, flush=True)


def origin(study: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Which machine, command and commit made a table: `machine` is the fingerprint of its CPU (model, cores,
    vector flags, TVM and LLVM) and of its GPU, if it has one, `commit` is null outside a clone, `versions`
    those of the packages."""
    from pruner.analyzer.device import Device
    from pruner.measure import gpu
    from pruner.records.versions import versions

    return {
        "machine": "; ".join(filter(None, [Device.auto().fingerprint, gpu.fingerprint()])),
        "command": shlex.join(["python", "-m", f"experiments.{study}", *arguments]),
        "commit": commit(),
        "versions": versions(),
    }


def commit() -> str | None:
    """The commit that these files are, `-dirty` behind it where they were changed; None outside a clone."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None


def write(
    folder: str | Path,
    study: str,
    *,
    document: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    text: str,
    figure: Figure | None = None,
) -> None:
    """Writes the study's files; each appears whole or not at all. Raises ConfigError for a folder that cannot
    be written to.

    Args:
        document: NAME.json; no NaN (give None).
        rows: NAME.csv, plain values by column.
        text: NAME.md.
        figure: NAME.png.
    """
    import pandas as pd

    base = Path(folder) / study
    try:
        write_whole(base.with_suffix(".json"), json.dumps(document, indent=1, allow_nan=False) + "\n")
        write_whole(base.with_suffix(".csv"), pd.DataFrame(list(rows)).to_csv(index=False))
        write_whole(base.with_suffix(".md"), text.rstrip() + "\n")
        if figure is not None:
            with draft_of(base.with_suffix(".png")) as draft:
                figure.savefig(draft, dpi=120, format="png")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written to: {error.strerror}.") from error


def heading(study: str, made: Mapping[str, Any]) -> str:
    """The first lines of NAME.md: what `origin` says."""
    commit = made["commit"] or "no commit: not a clone"
    return f"# {study}\n\n{made['machine']}; {commit}\n\n    {made['command']}\n"


def number(value: float | None) -> str | None:
    """A figure in a cell, to the third digit."""
    return None if value is None else f"{value:.3f}"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; None is an empty cell."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join("" if cell is None else str(cell) for cell in line) + " |" for line in lines
    )
