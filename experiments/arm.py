"""Arms: what is compared, each run as a process of its own whose clock starts with it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments.settings import CONF
from pruner import child
from pruner.config import compose, did_you_mean, parse
from pruner.errors import ConfigError, PrunerError
from pruner.records.journal import NAME, Contents, Journal

TUNE = "experiments.tuning"
UNTIMED = "pruner.measure.compile.CompileMeasurer"
_LAST_LINES = 8
_FORM = "give overrides: [key=value, ...]"
_THE_STUDYS = ("workload", "seed", "trials", "work_dir")


@dataclass(frozen=True)
class Arm:
    """overrides: of `pruner tune`. program: a module whose `main(launched, *overrides)` tunes as they say and
    leaves a journal and a summary.json in `work_dir`; launched: the reading of time.perf_counter at which its
    clock starts."""

    name: str
    overrides: tuple[str, ...] = ()
    program: str = TUNE

    @classmethod
    def load(cls, name: str) -> Arm:
        """The arm of experiments/conf/arm/NAME.yaml, or of a file of that form by its path; its settings are
        checked. Raises ConfigError."""
        path = arm_file(name)
        overrides, program = _parts(path)
        if not _importable(program):
            raise ConfigError(f"{path}: there is no module {program}, which is to be the arm's program.")
        try:
            check_overrides(overrides)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
        return cls(path.stem, tuple(overrides), program)

    @property
    def described(self) -> dict[str, Any]:
        """What makes it this arm."""
        return {"overrides": list(self.overrides), "program": self.program}


def arm_file(name: str) -> Path:
    """The file of an arm by its name or its path. Raises ConfigError when there is none."""
    path = Path(name) if name.endswith(".yaml") else CONF / "arm" / f"{name}.yaml"
    known = sorted(file.stem for file in (CONF / "arm").glob("*.yaml"))
    if not path.is_file():
        raise ConfigError(
            f"Unknown arm '{name}'.{did_you_mean(name, known)} Accepted: {', '.join(known)}, or the path "
            "of a file like those of experiments/conf/arm."
        )
    return path


def check_overrides(overrides: Sequence[str], *also: str) -> None:
    """Raises ConfigError for overrides that `pruner tune` does not take, that are the study's to set (what
    every study sets and `also`), or that leave a study nothing to compare."""
    own = [item.key_or_group for item in parse(overrides) if item.key_or_group in (*_THE_STUDYS, *also)]
    if own:
        raise ConfigError(
            f"overrides hold {own[0]}, which the study sets itself: leave it out, and give the study's own "
            "setting."
        )
    cfg = compose(["workload=GMM/0", *overrides])
    if cfg.measure.get("_target_") == UNTIMED:
        raise ConfigError("overrides hold measure=compile, which times nothing: an arm must time programs.")


class ArmError(PrunerError):
    """An arm that did not end well; the message is how it ended and its last lines."""


@dataclass(frozen=True)
class ArmRun:
    """A finished arm: its journal, its seconds by stage with their total, since its process was made, and
    what it told its user."""

    contents: Contents
    seconds: dict[str, float]
    notes: tuple[str, ...] = ()


def run_arm(arm: Arm, overrides: Sequence[str], folder: Path, threads: int) -> ArmRun:
    """Runs the arm in a fresh process with so many TVM threads, and waits for it. `folder` is made anew.

    The process ends with this one, whatever ends it: it watches its standard input. Raises ArmError.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = [*overrides, *arm.overrides, f"work_dir={folder}"]
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as err:
        launched = time.perf_counter()
        process = subprocess.Popen(
            child.command(arm.program, repr(launched), *words),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            env=child.environment(threads),
            start_new_session=True,
        )
        try:
            code = process.wait()
        finally:
            with suppress(ProcessLookupError):  # nothing of it may run beside the next arm
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
    if code != 0:
        raise ArmError(f"{_how(code)}\n{_last_lines(folder / 'stderr.txt')}".rstrip())
    return read_run(folder)


def read_run(folder: Path) -> ArmRun:
    """The run that an arm left in its folder. Raises ArmError when it is not whole."""
    try:
        contents = Journal.read(folder / NAME)
        summary = json.loads((folder / "summary.json").read_text("utf-8"))
        seconds, notes = summary["seconds"], tuple(summary.get("notes", ()))
    except (ConfigError, OSError, ValueError, KeyError) as error:
        raise ArmError(f"it left no result: {error}") from error
    reason = contents.end.reason if contents.end else "error"
    if reason in ("interrupted", "error"):
        raise ArmError(f"it ended before its trials were spent ({reason})")
    return ArmRun(contents, seconds, notes)


def _parts(path: Path) -> tuple[list[str], str]:
    """The overrides and the program that the file holds. Raises ConfigError for one of another form."""
    try:
        found: Any = OmegaConf.to_container(OmegaConf.load(path))
        overrides, program = found.pop("overrides", []), found.pop("program", TUNE)
    except (OmegaConfBaseException, yaml.YAMLError, AttributeError, TypeError, ValueError, OSError) as error:
        raise ConfigError(f"{path} is no arm ({' '.join(str(error).split())}): {_FORM}.") from error
    if "changes" in found:
        raise ConfigError(f"{path.stem} changes a base: it is an arm of `python -m experiments.ablation`.")
    if found:
        raise ConfigError(
            f"{path} holds {', '.join(map(str, found))}: an arm has overrides and program alone."
        )
    if not isinstance(overrides, list) or not all(isinstance(word, str) for word in (*overrides, program)):
        raise ConfigError(f"{path} is no arm (overrides: {overrides}, program: {program}): {_FORM}.")
    return overrides, program


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # a package that is missing, or no name
        return False


def _how(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"


def _last_lines(path: Path) -> str:
    lines = [line for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
    return "\n".join(lines[-_LAST_LINES:])
