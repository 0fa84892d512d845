"""What an ablation's arms are made of: a base, and one change to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from experiments.arm import Arm, arm_file, check_overrides
from experiments.settings import CONF
from pruner.config import compose, did_you_mean
from pruner.costmodel.shipped import find_checkpoint
from pruner.errors import ConfigError


@dataclass(frozen=True)
class Base:
    """overrides: of `pruner tune`. checkpoint: name or path of the pre-trained model. source: what it comes
    from, which stands in the names of models of other kinds, too."""

    name: str
    overrides: tuple[str, ...]
    checkpoint: str
    source: str

    @classmethod
    def load(cls, name: str, source: str) -> Base:
        """The base of experiments/conf/base/NAME.yaml, or of a file of that form by its path. Raises
        ConfigError."""
        path = Path(name) if name.endswith(".yaml") else CONF / "base" / f"{name}.yaml"
        known = sorted(file.stem for file in (CONF / "base").glob("*.yaml"))
        if not path.is_file():
            raise ConfigError(
                f"base={name}: there is no such base.{did_you_mean(name, known)} Accepted: "
                f"{', '.join(known)}, or the path of a file with checkpoint: and overrides: as theirs."
            )
        found = _read(path, {"checkpoint", "overrides"})
        checkpoint = str(found["checkpoint"]).replace("{source}", source)
        if found["checkpoint"] == "{source}" and not os.path.isfile(os.path.expandvars(source)):
            raise ConfigError(f"base={path.stem} starts from a file: source={source} is none. Give its path.")
        base = cls(path.stem, (), checkpoint, source)
        return cls(path.stem, tuple(base.filled(found["overrides"], path)), checkpoint, source)

    def arm(self, name: str, *also: str) -> Arm:
        """The base with the changes of experiments/conf/arm/NAME.yaml, or of a file of that form by its path.
        Raises ConfigError for one that changes nothing that there is or what is the study's to set (`also`),
        and when its checkpoint is missing."""
        path = arm_file(name)
        _check_changes(path)
        overrides = changed(self.overrides, self.filled(_read(path, {"changes"})["changes"], path))
        try:
            check_overrides(overrides, *also)
            checkpoint = checkpoint_of(overrides)
            if checkpoint is not None:
                find_checkpoint(checkpoint)
        except ConfigError as error:
            raise ConfigError(
                f"arms={path.stem}, of base={self.name} with source={self.source}: {error}"
            ) from error
        return Arm(path.stem, tuple(overrides))

    def filled(self, words: Any, path: Path) -> list[str]:
        """The overrides with the checkpoint and its source in place of their names in braces."""
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ConfigError(f"{path}: {words} are no overrides: give [key=value, ...].")
        found = []
        for word in words:
            for name in ("checkpoint", "source"):
                word = word.replace("{" + name + "}", getattr(self, name))
            found.append(word)
        return found


def checkpoint_of(overrides: Sequence[str]) -> str | None:
    """Name or path of the checkpoint that an arm with these overrides starts from; None = of none."""
    checkpoint = compose(["workload=GMM/0", *overrides]).adapt.get("checkpoint")
    return None if checkpoint is None else os.path.expandvars(str(checkpoint))


def changed(overrides: Sequence[str], changes: Sequence[str]) -> list[str]:
    """The overrides with the changes in place of those of the same key; a change of a group takes the place
    of all that is said of it."""
    keys = [change.partition("=")[0] for change in changes]
    kept = [
        one
        for one in overrides
        if not any(one.partition("=")[0] == key or one.startswith(f"{key}.") for key in keys)
    ]
    return [*kept, *changes]


def _check_changes(path: Path) -> None:
    """Raises ConfigError for the file of an arm that is no change of a base."""
    if "changes" not in _mapping(path):
        shipped = sorted((CONF / "arm").glob("*.yaml"))
        known = [file.stem for file in shipped if "changes" in _mapping(file)]
        raise ConfigError(
            f"arms={path.stem} is no change of a base: on a device it can be one of others=[...]. Accepted "
            f"in arms: {', '.join(known)}, or the path of a file that holds changes: [key=value, ...]."
        )


def _read(path: Path, keys: set[str]) -> dict[str, Any]:
    found = _mapping(path)
    if set(found) != keys:
        raise ConfigError(
            f"{path} holds {', '.join(found) or 'nothing'}: {' and '.join(sorted(keys))} are needed."
        )
    return found


def _mapping(path: Path) -> dict[str, Any]:
    try:
        found = OmegaConf.to_container(OmegaConf.load(path))
    except (OmegaConfBaseException, YAMLError, OSError, UnicodeError) as error:
        raise ConfigError(f"{path} cannot be read ({' '.join(str(error).split())}).") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds {found!r}: give key: value.")
    return {str(key): value for key, value in found.items()}
