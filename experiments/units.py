"""Units of a study of verifiers: one model fitted on one fold, and its scores of what it has not seen.

A unit is kept as a small file under a name that says what it was made from: settings, seed, records, features
and versions. The same unit is not made twice.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf

from experiments.entries import Entry
from experiments.pool import Pool
from experiments.ranking import FIGURES, together
from experiments.splits import Fold
from experiments.watched import Watched
from pruner.costmodel.guard import verifier_scores
from pruner.costmodel.verifier import Verifier
from pruner.errors import ConfigError
from pruner.faults import faults_told
from pruner.files import draft_of

Floats = NDArray[np.float64]

# What settings are chosen by on the validation records. Top-k of a few tasks hangs on which of some nearly
# equal programs stands first, so that it would choose by chance.
CHOSEN_BY = "pairwise"


@dataclass(frozen=True, eq=False)
class Unit:
    """scores: float64[m], of the programs that the fold scores, in order. chosen: the settings, of `tried`
    with their figures in validation. fit_s, predict_s: seconds of the last fit and of scoring. choose_s:
    seconds of the fits before it. peak_bytes: see Watched. trained: programs that the last fit learnt from.
    commit: what made it."""

    scores: Floats
    chosen: list[str]
    tried: list[dict[str, Any]]
    fit_s: float
    predict_s: float
    choose_s: float
    peak_bytes: int
    trained: int
    commit: str | None


@dataclass(frozen=True)
class Maker:
    """Makes units, or takes them from `folder`. fit_seconds: what a fit may take. origin: versions that a
    unit depends on. say: shows a line of progress."""

    pool: Pool
    folder: Path
    fit_seconds: float
    origin: Mapping[str, Any]
    commit: str | None
    say: Callable[[str], None]

    def unit(self, entry: Entry, seed: int, fold: Fold, validation: Fold, what: str) -> Unit:
        """The unit of a verifier on a fold. validation: of the fold's training records. what: names it in
        progress. Raises ConfigError for a file that is no unit, and for scores that are none."""
        path = self.folder / self._name(entry, seed, fold, validation)
        if path.exists():
            self.say(f"{what}  kept")
            return load(path, len(fold.scored))
        made = self._made(entry, seed, fold, validation, what)
        save(made, path)
        cost = f"fitted in {made.fit_s:.1f} s, scored {len(made.scores):,} in {made.predict_s:.2f} s"
        self.say(f"{what}  {made.trained:,} programs  {cost}")
        return made

    def _made(self, entry: Entry, seed: int, fold: Fold, validation: Fold, what: str) -> Unit:
        tried: list[dict[str, Any]] = []
        choose_s, peak = 0.0, 0
        if len(entry.tried) > 1:
            for settings in entry.tried:
                fit, predict, scores = self._fitted(entry, settings, seed, validation, what)
                figures = self._figures(validation, scores)
                tried.append({"settings": list(settings), **figures, "fit_s": fit.seconds})
                choose_s += fit.seconds + predict.seconds
                peak = max(peak, fit.peak_bytes)
                self.say(
                    f"{what}  {' '.join(settings) or 'its own settings'}: {_value(figures):.4f} in validation"
                )
        best = max(range(len(tried)), key=lambda i: _value(tried[i]), default=0)
        chosen = entry.tried[best]
        fit, predict, scores = self._fitted(entry, chosen, seed, fold, what)
        return Unit(
            scores,
            list(chosen),
            tried,
            fit.seconds,
            predict.seconds,
            choose_s,
            max(peak, fit.peak_bytes, predict.peak_bytes),
            len(fold.train),
            self.commit,
        )

    def _fitted(
        self, entry: Entry, settings: Sequence[str], seed: int, fold: Fold, what: str
    ) -> tuple[Watched, Watched, Floats]:
        verifier = entry.made(settings, seed=seed, fit_seconds=self.fit_seconds)
        training = self.pool.training_set(fold.train, verifier.features)
        scored = self.pool.features(fold.scored, verifier.features)
        with faults_told(f"{entry.label}: fit", type(verifier)), Watched(self.say, f"{what}  fitting") as fit:
            verifier.fit(training)
        with (
            faults_told(f"{entry.label}: predict", type(verifier)),
            Watched(self.say, f"{what}  scoring") as predict,
        ):
            scores = verifier.predict(scored)
        return fit, predict, checked(entry.label, scores, len(fold.scored), verifier)

    def _figures(self, fold: Fold, scores: Floats) -> dict[str, float | None]:
        """Of all tasks together."""
        tasks = self.pool.ranked(fold.scored, scores)
        if not tasks:
            return dict.fromkeys(FIGURES)
        return together([found for _, found in tasks], [self.pool.tasks[i].weight for i, _ in tasks])

    def _name(self, entry: Entry, seed: int, fold: Fold, validation: Fold) -> str:
        """Of the unit's file."""
        configs = [OmegaConf.to_container(entry.config(settings)) for settings in entry.tried]
        several = len(entry.tried) > 1
        depends = {
            "configs": configs,
            "seed": seed,
            "fit_seconds": self.fit_seconds,
            "origin": dict(self.origin),
            "chosen_by": CHOSEN_BY if several else None,
            "tasks": [task.digest(sorted(entry.features)) for task in self.pool.tasks],
        }
        digest = hashlib.sha256(json.dumps(depends, sort_keys=True).encode())
        for positions in (
            fold.train,
            fold.scored,
            *((validation.train, validation.scored) if several else ()),
        ):
            digest.update(f"{len(positions)} ".encode())
            digest.update(positions.tobytes())
        slug = re.sub(r"[^A-Za-z0-9_.]+", "-", entry.label)[:60]
        return f"{slug}-seed{seed}-{digest.hexdigest()[:16]}.npz"


def _value(figures: Mapping[str, Any]) -> float:
    """What settings are chosen by; where validation cannot give it, nothing."""
    return float(figures[CHOSEN_BY] or 0.0)


def checked(label: str, scores: object, n: int, verifier: Verifier) -> Floats:
    """What a verifier gave for n programs. Raises ConfigError unless it is a finite number for each."""
    try:
        return verifier_scores(scores, n, verifier)
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from error


def save(unit: Unit, path: Path) -> None:
    """Writes the file, whole or not at all."""
    said = {name: value for name, value in asdict(unit).items() if name != "scores"}
    with draft_of(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, scores=unit.scores, said=np.array(json.dumps(said)))


def load(path: Path, n: int) -> Unit:
    """Reads the file. Raises ConfigError when it is no unit with scores of n programs."""
    try:
        with np.load(path, allow_pickle=False) as found:
            unit = Unit(scores=found["scores"], **json.loads(str(found["said"])))
        if unit.scores.dtype != np.float64 or unit.scores.shape != (n,) or not np.isfinite(unit.scores).all():
            raise ValueError(f"its scores are not a finite number for each of {n} programs")
        seconds = (unit.fit_s, unit.predict_s, unit.choose_s)
        if not all(isinstance(one, float) for one in seconds):
            raise ValueError(f"its seconds are {seconds}")
        return unit
    except Exception as error:  # NumPy, zipfile and zlib have many kinds for what is no file of theirs
        raise ConfigError(
            f"{path} holds no predictions ({type(error).__name__}: {error}). Remove it."
        ) from error
