"""What cost_model says: a row a task, seed and verifier; figures by group with their intervals over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.entries import RANDOM
from experiments.intervals import plain_interval
from experiments.pool import Pool
from experiments.programs import TaskPrograms
from experiments.ranking import KS, Ranked, together
from experiments.splits import Fold
from experiments.task_intervals import Draws, intervals
from experiments.units import Unit

ALL = "all"

Row = dict[str, Any]
Floats = NDArray[np.float64]
# By verifier and seed, one a fold.
Units = Mapping[str, Mapping[int, Sequence[Unit]]]


@dataclass(frozen=True)
class Result:
    """How a verifier with a seed ranked a task; `random` is a random order, exactly expected. scored: how
    many programs it ranked."""

    verifier: str
    seed: int
    task: TaskPrograms
    scored: int
    ranked: Ranked


def results(
    pool: Pool, verifier: str, seed: int, folds: Sequence[Fold], scores: Sequence[Floats]
) -> list[Result]:
    """Of all that the folds score, together: a result a task with a program that ran. scores: float64[m] a
    fold, of the programs that it scores."""
    positions = np.concatenate([fold.scored for fold in folds])
    ran = positions[~np.isnan(pool.latency_s[positions])]
    counts = np.bincount(pool.programs.task[ran], minlength=len(pool.tasks))
    return [
        Result(verifier, seed, pool.tasks[task], int(counts[task]), ranked)
        for task, ranked in pool.ranked(positions, np.concatenate(scores))
    ]


def by_chance(pool: Pool, seed: int, folds: Sequence[Fold]) -> list[Result]:
    """What is expected of a random order: scores that are all equal."""
    return results(pool, RANDOM, seed, folds, [np.zeros(len(fold.scored)) for fold in folds])


def rows(found: Sequence[Result]) -> list[Row]:
    """A row a result, what is expected of a random order beside it."""
    chance = {(one.seed, one.task.name): one.ranked for one in found if one.verifier == RANDOM}
    return [
        {
            "verifier": one.verifier,
            "seed": one.seed,
            "task": one.task.name,
            "group": one.task.group,
            "weight": one.task.weight,
            "programs": one.scored,
            **{f"top{k}": one.ranked.top(k) for k in KS},
            "pairwise": one.ranked.pairwise,
            "rank_correlation": one.ranked.rank_correlation,
            **{f"random{k}": chance[one.seed, one.task.name].top(k) for k in KS},
            "best_s": one.ranked.best_s,
            **{f"top{k}_s": seconds for k, seconds in zip(KS, one.ranked.top_s, strict=True)},
        }
        for one in found
    ]


# By verifier and group: FIGURES, each float64[draws].
Drawn = Mapping[str, Mapping[str, Mapping[str, Floats]]]
# By verifier, group and seed: FIGURES.
Figures = Mapping[str, Mapping[str, Mapping[int, Mapping[str, float | None]]]]


def figures(found: Sequence[Result]) -> Figures:
    """Of every group of tasks, and of all."""
    groups = [*sorted({one.task.group for one in found}), ALL]
    made: dict[str, dict[str, dict[int, dict[str, float | None]]]] = {}
    for verifier, seed in dict.fromkeys((one.verifier, one.seed) for one in found):
        mine = [one for one in found if (one.verifier, one.seed) == (verifier, seed)]
        for group in groups:
            inside = [one for one in mine if group in (ALL, one.task.group)]
            if inside:
                of = together([one.ranked for one in inside], [one.task.weight for one in inside])
                made.setdefault(verifier, {}).setdefault(group, {})[seed] = of
    return made


def drawn(found: Sequence[Result]) -> Drawn:
    """By verifier and group, FIGURES of the same draws of tasks and seeds for every verifier. A task that
    some seed has no program of is in none."""
    made: dict[str, dict[str, Mapping[str, Floats]]] = {}
    for group in [*sorted({one.task.group for one in found}), ALL]:
        inside = [one for one in found if group in (ALL, one.task.group)]
        seeds = list(dict.fromkeys(one.seed for one in inside))
        by = {(one.verifier, one.seed, one.task.name): one.ranked for one in inside}
        verifiers = list(dict.fromkeys(one.verifier for one in inside))
        tasks = {
            one.task.name: one.task.weight
            for one in inside
            if all((verifiers[0], seed, one.task.name) in by for seed in seeds)
        }
        if tasks:
            draws = Draws.of(len(tasks), len(seeds))
            for verifier in verifiers:
                ranked = [[by[verifier, seed, task] for task in tasks] for seed in seeds]
                made.setdefault(verifier, {})[group] = draws.figures(ranked, list(tasks.values()))
    return made


def summary(found: Drawn, units: Units) -> Row:
    """By verifier and group, FIGURES as {mean, low, high} over tasks and seeds; by verifier `fit_s`, of one
    fit, and `predict_s`, of scoring a fold, over seeds. `random` has plain numbers: exact expectations."""
    made: Row = {}
    for verifier, groups in found.items():
        made[verifier] = {}
        for group, of in groups.items():
            over = intervals(of)
            made[verifier][group] = {n: o["mean"] for n, o in over.items()} if verifier == RANDOM else over
        if verifier in units:
            for name in ("fit_s", "predict_s"):
                means = [float(np.mean([getattr(u, name) for u in of])) for of in units[verifier].values()]
                made[verifier][name] = plain_interval(means)
    return made


def against(found: Drawn) -> Row:
    """The first verifier's figures less every other's, on the same draws: by the other one and group, {mean,
    low, high}; above 0 where the first is better."""
    ours, *others = [verifier for verifier in found if verifier != RANDOM] or [RANDOM]
    return {
        other: {group: intervals(of, found[other][group]) for group, of in found[ours].items()}
        for other in others
    }


def seed_rows(found: Figures) -> list[Row]:
    """FIGURES of every verifier, group and seed, a row each."""
    return [
        {"verifier": verifier, "group": group, "seed": seed, **of}
        for verifier, groups in found.items()
        for group, seeds in groups.items()
        for seed, of in seeds.items()
    ]


def unit_rows(units: Units, splits: Mapping[int, Sequence[Fold]], pool: Pool) -> list[Row]:
    """A row a unit. scores: the tasks that it scores; splits: the folds, by seed."""
    names = {
        (seed, number): [pool.tasks[i].name for i in np.unique(pool.programs.task[fold.scored])]
        for seed, folds in splits.items()
        for number, fold in enumerate(folds)
    }
    return [
        {
            "verifier": verifier,
            "seed": seed,
            "fold": number + 1,
            "scores": names[seed, number],
            "chosen": unit.chosen,
            "tried": unit.tried,
            "trained": unit.trained,
            "scored": len(unit.scores),
            "fit_s": unit.fit_s,
            "predict_s": unit.predict_s,
            "choose_s": unit.choose_s,
            "peak_bytes": unit.peak_bytes,
            "commit": unit.commit,
        }
        for verifier, seeds in units.items()
        for seed, of in seeds.items()
        for number, unit in enumerate(of)
    ]
