"""Splits of records into what trains and what is scored, and of training records into fitting and
validation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError

Ints = NDArray[np.int64]

SPLITS = ("task", "within", "time")
_FOLDS = 5
_VALIDATION = 5  # one part in so many


@dataclass(frozen=True, eq=False)
class Programs:
    """The n programs of all tasks, task after task.

    task: int64[n]. order: int64[n], when each was first measured; it has meaning within a task. families:
    tasks that are kin, by position.
    """

    task: Ints
    order: Ints
    families: Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class Fold:
    """Positions of programs: what a model trains on, and those it is scored on, which it has not seen."""

    train: Ints
    scored: Ints


def folds(split: str, programs: Programs, seed: int) -> list[Fold]:
    """The folds of a split.

    within: a random half of every task's programs trains. time: the half that was measured first. task: five
    folds of whole families, or as many as there are families, with about as many programs each; each is
    scored by a model of the others. The folds of `time` and `task` are the same for every seed.

    Raises ConfigError for another split, and for a split over tasks that has but one family.
    """
    if split not in SPLITS:
        raise ConfigError(f"split={split} is not accepted: give one of {', '.join(SPLITS)}.")
    check_families(split, programs.families)
    everything = np.arange(len(programs.task))
    if split == "task":
        sizes = [int(np.isin(programs.task, family).sum()) for family in programs.families]
        made = []
        for bin in balanced(sizes, _FOLDS):
            held_out = _of(programs, bin)
            made.append(Fold(everything[~held_out], everything[held_out]))
        return made
    rng = np.random.default_rng([seed, 0])
    trains = np.zeros(len(everything), dtype=bool)
    for own in _by_task(programs.task):
        ordered = (
            rng.permutation(own) if split == "within" else own[np.argsort(programs.order[own], kind="stable")]
        )
        trains[ordered[: len(own) // 2]] = True
    return [Fold(everything[trains], everything[~trains])]


def check_families(split: str, families: Sequence[Sequence[int]]) -> None:
    """Raises ConfigError where a split over tasks has but one family."""
    if split == "task" and len(families) < 2:
        raise ConfigError(
            "split=task trains on some tasks and scores others; all records are of one task, or of tasks "
            "that differ in nothing but what surrounds their main reduction. Give more data, or split=within."
        )


def balanced(sizes: Sequence[int], bins: int) -> list[list[int]]:
    """Positions of the sizes in so many bins, or fewer where there are fewer sizes: the largest first, each
    to the bin that holds least so far."""
    held = [0] * min(bins, len(sizes))
    found: list[list[int]] = [[] for _ in held]
    for position in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        lightest = held.index(min(held))
        found[lightest].append(position)
        held[lightest] += sizes[position]
    return found


def share(train: Ints, task: Ints, fraction: float, seed: int) -> Ints:
    """A share of every task's training programs, drawn at random, rounded up; a smaller share of the same
    seed is a part of a larger one. train: positions; task: int64[n], of all programs."""
    rng = np.random.default_rng([seed, 1])
    kept = []
    for own in _by_task(task):
        # Drawn from all of a task's programs, so that folds do not matter.
        ordered = rng.permutation(own)
        ordered = ordered[np.isin(ordered, train)]
        kept.append(ordered[: math.ceil(fraction * len(ordered))])
    return np.sort(np.concatenate([np.empty(0, np.int64), *kept]))


def validation(split: str, programs: Programs, train: Ints, seed: int) -> Fold:
    """A fifth of the training programs to score settings on, chosen as those to be scored are: of every task
    a random part or the latest one; of a split over tasks whole families, where two have programs in it."""
    if split == "task":
        trained = np.unique(programs.task[train])
        inside = [i for i, family in enumerate(programs.families) if np.isin(family, trained).any()]
        if len(inside) > 1:
            sizes = [int(np.isin(programs.task[train], programs.families[i]).sum()) for i in inside]
            bins = balanced(sizes, _VALIDATION)
            held_out = _of(programs, [inside[i] for i in bins[seed % len(bins)]])[train]
            return Fold(train[~held_out], train[held_out])
    rng = np.random.default_rng([seed, 2])
    held = []
    for own in _by_task(programs.task[train]):
        own = train[own]
        ordered = (
            own[np.argsort(programs.order[own], kind="stable")] if split == "time" else rng.permutation(own)
        )
        held.append(ordered[len(own) - len(own) // _VALIDATION :])
    scored = np.sort(np.concatenate([np.empty(0, np.int64), *held]))
    return Fold(np.setdiff1d(train, scored), scored)


def _of(programs: Programs, families: Sequence[int]) -> NDArray[np.bool_]:
    """bool[n], the programs of these families."""
    tasks = [task for family in families for task in programs.families[family]]
    return np.isin(programs.task, tasks)


def _by_task(task: Ints) -> list[Ints]:
    """Positions of each task's programs."""
    return [np.flatnonzero(task == one) for one in np.unique(task)]
