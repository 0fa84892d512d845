"""What blocks of arms say: rows, ratios with their intervals, medians; the JSON of a study of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from experiments.block import Block
from experiments.curves import reached
from experiments.intervals import interval
from experiments.ratios import Opponent, Race, races

METASCHEDULE, STOCK = "metaschedule", "stock"
_SUMMARY = (
    ("seconds", STOCK),
    ("seconds", METASCHEDULE),
    ("trials", METASCHEDULE),
    ("latency", METASCHEDULE),
)

RATIOS = ("seconds", "trials", "latency")

# By opponent: the races by workload and seed.
Races = Mapping[str, Mapping[tuple[str, int], Race]]


def assemble(blocks: Sequence[Block], arms: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The study's document. arms: by workload, ours first. Every other arm is an opponent, and `metaschedule`
    is the best of the arms whose names begin so.

    summary: {mean, low, high} of the ratios that matter, above 1 where ours is better.
    against: by opponent, the ratios of seconds, trials and latency, and the blocks (workload, seed) where
        ours never came near its result.
    workloads: by workload, medians over seeds: of every arm's latency and seconds, and of the ratios.
    blocks: where each was made, and which arms failed. results: see `rows`.
    """
    everyone = list(dict.fromkeys(arm for names in arms.values() for arm in names))
    ours, others = everyone[0], everyone[1:]
    best = Opponent(METASCHEDULE, tuple(arm for arm in others if arm.startswith(METASCHEDULE)))
    found = {one.name: races(blocks, ours, one) for one in (best, *(Opponent(arm, (arm,)) for arm in others))}
    beside = {name: against(won) for name, won in found.items()}
    return {
        "ours": ours,
        "summary": {
            f"{what}_ratio_vs_{name}": beside[name][what] if name in beside else interval([])
            for what, name in _SUMMARY
        },
        "against": beside,
        "workloads": {workload: _medians(workload, names, blocks, found) for workload, names in arms.items()},
        "blocks": [
            {
                "workload": block.workload,
                "seed": block.seed,
                "machine": block.machine,
                "untuned_s": block.untuned_s,
                "failed": block.failed,
            }
            for block in blocks
        ],
        "results": [row for block in blocks for row in rows(block, arms[block.workload], found)],
    }


def rows(block: Block, arms: Sequence[str], found: Races) -> list[dict[str, Any]]:
    """A row per arm. latency_s: of what it ended on, timed again (null: nothing, see `error`); curve: [trial,
    seconds, latency_s] at every incumbent, timed again; seconds: by stage and total, since its process was
    made; reached: by opponent, trials and seconds until it first came near that one's final result, or null.
    """
    targets = {
        name: block.curve(won[block.workload, block.seed].leader)[-1].latency_s
        for name, won in found.items()
        if (block.workload, block.seed) in won
    }
    made = []
    for arm in arms:
        points, result = block.curve(arm), block.arms[arm]
        near = {name: reached(points, target) for name, target in targets.items()}
        made.append(
            {
                "workload": block.workload,
                "seed": block.seed,
                "arm": arm,
                "latency_s": points[-1].latency_s if points else None,
                "trials": result.trials,
                "failures": result.failures,
                "seconds": result.seconds,
                "curve": [[p.trial, p.seconds, p.latency_s] for p in points],
                "reached": {
                    name: {"trials": p.trial, "seconds": p.seconds} if p else None for name, p in near.items()
                },
                "commit": result.commit,
                "error": result.error,
            }
        )
    return made


def against(won: Mapping[tuple[str, int], Race]) -> dict[str, Any]:
    """Ours against an opponent: the ratios of all blocks, and the blocks where ours never came near."""
    return {
        "blocks": len(won),
        **{what: interval(_known(won.values(), what)) for what in RATIOS},
        "never_reached": [list(where) for where, race in won.items() if not race.reached],
    }


def _known(won: Iterable[Race], what: str) -> list[float]:
    """A ratio of all races that have one."""
    return [ratio for race in won if (ratio := getattr(race, what)) is not None]


def _medians(workload: str, arms: Sequence[str], blocks: Sequence[Block], found: Races) -> dict[str, Any]:
    same = [block for block in blocks if block.workload == workload]
    against = {}
    for name, won in found.items():
        here = [race for (where, _), race in won.items() if where == workload]
        if here:
            ratios = {what: median(known) if (known := _known(here, what)) else None for what in RATIOS}
            against[name] = {"leader": here[0].leader, **ratios}
    return {
        "arms": {
            arm: {
                "latency_s": median(block.curve(arm)[-1].latency_s for block in done),
                "seconds": median(block.arms[arm].seconds["total"] for block in done),
            }
            for arm in arms
            if (done := [block for block in same if block.curve(arm)])
        },
        "against": against,
    }
