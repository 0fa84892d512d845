"""Trains the verifier of a checkpoint on records, measures it on what it has not seen, writes it."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf

from experiments.definitions import Definition
from experiments.entries import Entry
from experiments.kin import families
from experiments.pool import Pool
from experiments.pretrained import identity
from experiments.ranking import FIGURES, KS, together
from experiments.splits import share
from experiments.units import checked
from experiments.watched import Watched
from pruner.costmodel.checkpoint import load_checkpoint, save_checkpoint
from pruner.costmodel.shipped import SUFFIX
from pruner.costmodel.verifier import Verifier
from pruner.errors import ConfigError
from pruner.faults import faults_told
from pruner.records.dataset import Dataset

Ints = NDArray[np.int64]

# Of every task's programs; the rest is held out.
_TRAINS = 0.9
# Seconds between two lines of progress of a training.
_PATIENCE_S = 10.0
# Settings that say how a fit is run, not what the model is.
_OF_A_RUN = ("_target_", "device", "resume", "fit_seconds")


@dataclass(frozen=True, eq=False)
class Material:
    """What a checkpoint can be made from. pool: the programs of all tasks. records: the records they are
    from, a data set a task, those without a valid program too. device: its name."""

    pool: Pool
    records: Sequence[Dataset]
    device: str

    def without(self, names: Sequence[str]) -> list[str]:
        """The tasks that are left when these and their kin are. Raises ConfigError for a name that is none,
        and when nothing is left."""
        ids = [one.tasks[0].id for one in self.records]
        for name in names:
            if name not in ids:
                raise ConfigError(f"leave_out={name}: there is no such task; there are {', '.join(ids)}.")
        out = {
            ids[i]
            for family in families([one.tasks[0].mod for one in self.records])
            if any(ids[i] in names for i in family)
            for i in family
        }
        left = [task.name for task in self.pool.tasks if task.name not in out]
        if not left:
            raise ConfigError(
                f"leave_out={','.join(names)} leaves no task to train on: all others differ from one of "
                "these only around the main reduction. Leave out fewer."
            )
        return left

    def positions(self, names: Sequence[str]) -> Ints:
        """Of these tasks' programs that ran; why the others failed has little to do with their speed."""
        inside = [i for i, task in enumerate(self.pool.tasks) if task.name in names]
        ran = ~np.isnan(self.pool.latency_s)
        return np.flatnonzero(np.isin(self.pool.programs.task, inside) & ran)


@dataclass(frozen=True)
class Trainer:
    """Makes checkpoints in `folder`. given: settings that a definition's command needs besides its name.
    made: see output.origin. say: shows a line of progress."""

    folder: Path
    seed: int
    fit_seconds: float
    given: Sequence[str]
    made: Mapping[str, Any]
    say: Callable[[str], None]

    def checkpoint(self, definition: Definition, entry: Entry, material: Material) -> dict[str, Any]:
        """The header's `made` of the checkpoint, which is kept where it was made from the same. A state file
        beside it keeps a training that is cut off. Raises ConfigError when there is nothing to learn."""
        path = self.folder / f"{definition.name}{SUFFIX}"
        pool, trained = material.pool, material.without(definition.leave_out)
        inside = material.positions(trained)
        train = share(inside, pool.programs.task, _TRAINS, self.seed)
        held_out = np.setdiff1d(inside, train)
        header = self._header(definition, entry, material, trained, train)
        if (kept := _kept(path, header["key"])) is not None:
            self.say(f"{definition.name}  kept")
            return kept
        verifier = entry.made(
            entry.tried[0],
            seed=self.seed,
            fit_seconds=self.fit_seconds,
            resume=self.folder / f".{definition.name}.training",
        )
        training = pool.training_set(train, verifier.features)
        if not training.tells_apart:
            raise ConfigError(
                f"{definition.name}: in the {len(train)} programs that are trained on no task has two that "
                "differ in latency, so that there is nothing to learn. Give more records."
            )
        _show_progress(verifier, f"{definition.name}  ", self.say)
        who = f"{definition.name}: {entry.label}: "
        with (
            faults_told(f"{who}fit", type(verifier)),
            Watched(self.say, f"{definition.name}  fitting") as fit,
        ):
            verifier.fit(training)
        with faults_told(f"{who}state_dict", type(verifier)):
            state = verifier.state_dict()
        if definition.half:
            state = _halved(state, definition.name)
            verifier.load_state_dict(state)
        # A network counts what it spent before it was cut off, too.
        header["fit_s"] = round(getattr(getattr(verifier, "trained", None), "seconds", fit.seconds), 1)
        header["metrics"] = {"held_out": _figures(pool, held_out, verifier, definition.name)}
        if definition.leave_out:
            scored = material.positions(definition.leave_out)
            header["metrics"]["left_out"] = _figures(pool, scored, verifier, definition.name)
        save_checkpoint(path, state, header)
        return header

    def _header(
        self, definition: Definition, entry: Entry, material: Material, trained: Sequence[str], train: Ints
    ) -> dict[str, Any]:
        """All that is known before training; `key` is of what the checkpoint depends on."""
        pool = material.pool
        of = {one.tasks[0].id: one for one in material.records}
        task = pool.programs.task[train]
        counts = {own.name: int((task == i).sum()) for i, own in enumerate(pool.tasks)}
        config: Any = OmegaConf.to_container(entry.config(entry.tried[0]))
        command = ["python", "-m", "experiments.pretrain", f"checkpoints={definition.name}", *self.given]
        header = {
            "name": definition.name,
            "data": definition.origins,
            "recorded": definition.recorded,
            "device": material.device,
            "machines": sorted({machine for name in trained for machine in of[name].devices}),
            "tasks": [{**identity(of[name].tasks[0]), "programs": counts[name]} for name in trained],
            "left_out": [
                identity(of[own.name].tasks[0]) for own in pool.tasks if own.name in definition.leave_out
            ],
            "records": sum(len(of[name]) for name in trained),
            "programs": len(train),
            "verifier": {key: value for key, value in config.items() if key not in _OF_A_RUN},
            "seed": self.seed,
            "half": definition.half,
            "versions": dict(self.made["versions"]),
            "commit": self.made["commit"],
            "command": shlex.join(command),
        }
        seen = sorted(entry.features)
        depends = {
            **{name: value for name, value in header.items() if name != "commit"},
            "class": config["_target_"],
            "fit_seconds": self.fit_seconds,
            "numbers": [
                own.digest(seen) for own in pool.tasks if own.name in {*trained, *definition.leave_out}
            ],
            "train": hashlib.sha256(train.tobytes()).hexdigest(),
        }
        header["key"] = hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:32]
        return header


def _kept(path: Path, key: str) -> dict[str, Any] | None:
    """The `made` of the checkpoint at this path when it has this key."""
    if not path.exists():
        return None
    try:
        _, made = load_checkpoint(path)
    except ConfigError:  # it is made again
        return None
    return made if made.get("key") == key else None


def _figures(pool: Pool, positions: Ints, verifier: Verifier, name: str) -> dict[str, float | int | None]:
    """How the verifier ranks these programs, by FIGURES and how many there are, and what is expected of a
    random order."""
    scores = np.zeros(0)
    if len(positions):
        with faults_told(f"{name}: predict", type(verifier)):
            given = verifier.predict(pool.features(positions, verifier.features))
        scores = checked(name, given, len(positions), verifier)
    found = {"": scores, "random_": np.zeros(len(positions))}
    figures: dict[str, float | int | None] = {"programs": len(positions)}
    for prefix, these in found.items():
        tasks = pool.ranked(positions, these)
        weights = [pool.tasks[i].weight for i, _ in tasks]
        of = together([one for _, one in tasks], weights) if tasks else dict.fromkeys(FIGURES)
        names = FIGURES if not prefix else [f"top{k}" for k in KS]
        figures |= {f"{prefix}{name}": of[name] for name in names}
    return figures


def _halved(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The state with weights in half precision, which loading makes single again."""
    if "weights" not in state:
        raise ConfigError(f"{name} is defined with half: true, and its verifier has no weights. Remove it.")
    weights = {
        key: array.astype(np.float16) if array.dtype == np.float32 else array
        for key, array in state["weights"].items()
    }
    if not all(np.isfinite(array).all() for array in weights.values()):
        raise ConfigError(f"{name}: a weight is too large for half precision. Define it without half: true.")
    return {**state, "weights": weights}


def _show_progress(verifier: Verifier, what: str, say: Callable[[str], None]) -> None:
    """A line now and then while the verifier trains, where it tells how far it is."""
    said = time.monotonic()

    def show(epoch: int, epochs: int, loss: float, validated: float | None) -> None:
        nonlocal said
        if time.monotonic() - said > _PATIENCE_S:
            said = time.monotonic()
            beside = "" if validated is None else f", {validated:.4f} in validation"
            say(f"{what}epoch {epoch}/{epochs}  loss {loss:.4f}{beside}")

    if hasattr(verifier, "progress"):
        verifier.progress = show
