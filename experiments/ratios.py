"""Ours against an opponent: how many times its seconds, trials and latency are ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from experiments.block import Block
from experiments.curves import reached


@dataclass(frozen=True)
class Opponent:
    """One arm, or the best of several (by `arms`). On a workload its latency is that of the arm whose final
    latency is the lowest (the median over seeds), its seconds and trials are the fewest that any of them took
    to come near that latency."""

    name: str
    arms: tuple[str, ...]

    def leader(self, blocks: Sequence[Block]) -> str | None:
        """The arm whose final latency is the lowest on these blocks of one workload, None without any."""
        finals = {
            arm: [points[-1].latency_s for block in blocks if (points := block.curve(arm))]
            for arm in self.arms
        }
        medians = {arm: median(found) for arm, found in finals.items() if found}
        return min(medians, key=lambda arm: medians[arm], default=None)


@dataclass(frozen=True)
class Race:
    """Ratios in one block, above 1 where ours is better. leader: the opponent's arm whose final latency was
    the target. latency: None where ours ended without a program. reached: whether ours came near the target;
    where it did not, ours counts its own total or the opponent's figure, whichever is larger."""

    leader: str
    seconds: float
    trials: float
    latency: float | None
    reached: bool


def race(block: Block, ours: str, opponent: Opponent, leader: str) -> Race | None:
    """Ours against the opponent in a block; None where ours failed, or the opponent has no program."""
    mine, theirs = block.curve(ours), block.curve(leader)
    if ours not in block.timed or not theirs:
        return None
    target = theirs[-1].latency_s
    points = [point for arm in opponent.arms if (point := reached(block.curve(arm), target))]
    seconds, trials = min(p.seconds for p in points), min(p.trial for p in points)
    point = reached(mine, target)
    total = block.arms[ours]
    return Race(
        leader,
        seconds=seconds / (point.seconds if point else max(total.seconds["total"], seconds)),
        trials=trials / (point.trial if point else max(total.trials, trials)),
        latency=target / mine[-1].latency_s if mine else None,
        reached=point is not None,
    )


def races(blocks: Sequence[Block], ours: str, opponent: Opponent) -> dict[tuple[str, int], Race]:
    """By workload and seed, for every block where there is one."""
    found = {}
    for workload in dict.fromkeys(block.workload for block in blocks):
        same = [block for block in blocks if block.workload == workload]
        best = opponent.leader(same)
        for block in same:
            # Where that arm failed, the opponent is what it has there: no block is lost to a failure.
            leader = best if best is not None and block.curve(best) else opponent.leader([block])
            one = race(block, ours, opponent, leader) if leader is not None else None
            if one is not None:
                found[workload, block.seed] = one
    return found
