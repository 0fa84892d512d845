"""What a pre-trained checkpoint is made from: records, what of them is left out, a verifier."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from pruner.config import did_you_mean
from pruner.errors import ConfigError


@dataclass(frozen=True)
class Definition:
    """name: of the checkpoint. data: what `pruner records` reads; `$NAME` stands for the environment
    variable. device: the one the records are from. verifier: an option of `pruner tune`'s verifier with its
    settings. recorded: part of the machine's name; None = all. tasks: only these; empty = all. leave_out:
    tasks that it is not trained on, nor on their kin, and that it is scored on in the end. half: its weights
    are kept in half precision."""

    name: str
    data: tuple[str, ...]
    device: str
    verifier: str
    recorded: str | None = None
    tasks: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    half: bool = False

    @property
    def paths(self) -> list[str]:
        """Of the data. Raises ConfigError for an environment variable that is not there."""
        found = [os.path.expandvars(path) for path in self.data]
        for path in found:
            if path.startswith("$"):
                raise ConfigError(
                    f"{self.name} is made from {path}: the environment variable says nothing. Set it to the "
                    "folder of the data."
                )
        return found

    @property
    def origins(self) -> list[str]:
        """The data by names that say nothing of this machine."""
        return [Path(path).name if Path(path).is_absolute() else path for path in self.data]


def definitions(given: Mapping[str, Any], names: Sequence[str]) -> list[Definition]:
    """Those of these names, in this order; of no names all. given: by name, the fields.

    Raises ConfigError for a name that is not there, and for fields that are none.
    """
    for name in names:
        if name not in given:
            raise ConfigError(
                f"checkpoints={name}: nothing is defined under this name.{did_you_mean(name, list(given))} "
                f"There are {', '.join(given) or 'none'}."
            )
    return [_read(name, given[name]) for name in names or given]


def read_definitions(path: str) -> Mapping[str, Any]:
    """The definitions in a YAML file. Raises ConfigError when it has none."""
    try:
        found = OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, UnicodeError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"definitions={path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"definitions={path} defines nothing: give NAME: {{data: …, device: …}}.")
    return {str(name): value for name, value in found.items()}


def _read(name: str, given: object) -> Definition:
    known = [field.name for field in fields(Definition) if field.name != "name"]
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name} is defined as {given}: give {', '.join(known)}.")
    for key in given:
        if key not in known:
            raise ConfigError(f"{name} is defined with {key}; accepted are {', '.join(known)}.")
    missing = [key for key in ("data", "device", "verifier") if not given.get(key)]
    if missing:
        raise ConfigError(f"{name} is defined without {', '.join(missing)}.")
    lists = {key: _texts(given.get(key) or []) for key in ("data", "tasks", "leave_out")}
    for key, texts in lists.items():
        # A task that is there twice would train with one half on what is held out of the other.
        if twice := [text for i, text in enumerate(texts) if text in texts[:i]]:
            raise ConfigError(f"{name} is defined with {twice[0]} twice in {key}. Give it once.")
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ConfigError(
            f"the name {name!r} is not accepted, as it is that of a file: give letters, digits, - _ and dots."
        )
    half = given.get("half", False)
    if not isinstance(half, bool):
        raise ConfigError(f"{name} is defined with half: {half!r}; accepted are true and false.")
    recorded = given.get("recorded")
    return Definition(
        name,
        device=str(given["device"]),
        verifier=str(given["verifier"]),
        recorded=None if recorded is None else str(recorded),
        half=half,
        **lists,
    )


def _texts(value: object) -> tuple[str, ...]:
    """One value or several; a task may be called 3."""
    return tuple(str(one) for one in (value if isinstance(value, list) else [value]))
