"""The checkpoints that ship with the package, by name."""

from __future__ import annotations

import os
from pathlib import Path

from pruner.errors import ConfigError

FOLDER = Path(__file__).parents[1] / "checkpoints"
SUFFIX = ".safetensors"
# Of weights that the authors of Pruner released.
RELEASED = ".pth"


def shipped() -> list[str]:
    """The names of those that ship, sorted."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def find_checkpoint(name_or_path: str | os.PathLike[str]) -> Path:
    """The file of a checkpoint. A text without a folder and without `.safetensors` or `.pth` is the name of
    one that ships with the package; all else is a path.

    Raises ConfigError when there is no such file, with the names there are.
    """
    given = os.fspath(name_or_path)
    is_name = isinstance(name_or_path, str) and not given.endswith((SUFFIX, RELEASED)) and os.sep not in given
    path = FOLDER / f"{given}{SUFFIX}" if is_name else Path(given)
    if not path.is_file():
        names = ", ".join(shipped()) or "none: `python -m experiments.pretrain` makes them"
        raise ConfigError(
            f"there is no checkpoint {given or repr(given)}. Give the path of a {SUFFIX} file or of released "
            f"weights ({RELEASED}), or the name of one that ships with the package ({names})."
        )
    return path
