"""What an ablation comes to: every arm's figures over blocks, and its differences to the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.ablation_rows import Row
from experiments.block import Block
from experiments.intervals import Interval, interval, plain_interval
from experiments.ratios import Opponent, races
from experiments.summary import METASCHEDULE, STOCK
from pruner.errors import ConfigError
from pruner.measure.clock import STAGES

FULL = "full"
# What is compared with what, beside the whole.
PAIRS = (
    ("finetune", "no_adaptation"),
    *((arm, "offline") for arm in ("offline_no_draft", "offline_tenset_mlp", "offline_tlp")),
)
# Arms that others are raced against: TVM as it stands, and what the paper's offline mode is compared with.
OPPONENTS = (STOCK, "offline_tenset_mlp", "offline_tlp")

# What documents must agree in to be parts of one.
_ALIKE = (
    *("base", "base_overrides", "source", "overrides", "measure", "device"),
    *("trials", "batch", "trial_s", "looks", "machine", "commit"),
)


def assemble(found: Sequence[Row], arms: Sequence[str], looks: Sequence[int]) -> dict[str, Any]:
    """What rows say. arms: see `statistics`. pairs: see `pairs`. workloads: by workload and arm, the score
    over seeds."""
    return {
        "looks": list(looks),
        "blocks": len({_where(row, "") for row in found}),
        "seeds": sorted({row["seed"] for row in found}),
        "arms": statistics(found, arms),
        "pairs": pairs(found),
        "workloads": {
            workload: {"arms": _scores(found, workload, arms)}
            for workload in dict.fromkeys(row["workload"] for row in found)
        },
        "results": list(found),
    }


def combined(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One document of replays that were made apart, other tasks or seeds in each. Raises ConfigError for
    those that differ in more, are of other records, or share a block."""
    first = documents[0]
    for other in documents[1:]:
        differing = [key for key in (*_ALIKE, "arms") if _told(first, key) != _told(other, key)]
        if differing:
            raise ConfigError(
                f"ablations that differ in {', '.join(differing)} are not parts of one table: give the "
                "folders of those that were made alike."
            )
    found = [row for document in documents for row in document["results"]]
    wheres = [_where(row, row["arm"]) for row in found]
    if len(set(wheres)) < len(wheres) or first["measure"] != "replay":
        raise ConfigError(
            "ablations that have blocks in common, or were measured on a device, are not put together: make "
            "them as one, with blocks=DIR."
        )
    best: dict[str, float] = {}
    for row in found:
        if best.setdefault(row["workload"], row["best_s"]) != row["best_s"]:
            raise ConfigError(
                f"the best of {row['workload']} is not the same in all of these ablations: they are of other "
                "records. Give the folders of those that were made alike."
            )
    for row in found:
        row["shares"] = {int(look): one for look, one in row["shares"].items()}  # JSON has texts for keys
    recorded = {name: one for document in documents for name, one in document["as_recorded"].items()}
    left_out = list(dict.fromkeys(text for document in documents for text in document["left_out"]))
    return {
        **first,
        **assemble(found, list(first["arms"]), first["looks"]),
        "as_recorded": recorded,
        "left_out": left_out,
    }


def _told(document: Mapping[str, Any], key: str) -> Any:
    return list(document[key]) if key == "arms" else document[key]


def _scores(found: Sequence[Row], workload: str, arms: Sequence[str]) -> dict[str, Interval]:
    own = [row for row in found if row["workload"] == workload and row["score"] is not None]
    return {arm: plain_interval([row["score"] for row in own if row["arm"] == arm]) for arm in arms}


def statistics(found: Sequence[Row], arms: Sequence[str]) -> dict[str, Any]:
    """By arm, {mean, low, high} over blocks: score; difference, its score less that of `full` in the same
    block; latency_s, the geometric mean; latency_ratio, over that of `full`, geometric; trials_to_5pct and
    seconds_to_5pct; seconds by stage. difference_over_workloads: seeds of a workload count as one, by their
    mean. blocks: how many ended; unreached: in how many it never came near; empty: in how many it had no
    program, which no latency tells of."""
    ended = {_where(row, row["arm"]): row for row in found if row["score"] is not None}
    blocks = {_where(row, ""): row for row in found}.values()
    own = {arm: [ended[key] for row in blocks if (key := _where(row, arm)) in ended] for arm in arms}
    return {arm: _statistics(of, ended) for arm, of in own.items()}


def _where(row: Row, arm: str) -> tuple[str, int, str]:
    """Of another arm in the row's block."""
    return row["workload"], row["seed"], arm


def _statistics(own: Sequence[Row], ended: Mapping[tuple[str, int, str], Row]) -> dict[str, Any]:
    beside = [(row, full) for row in own if (full := ended.get(_where(row, FULL))) is not None]
    timed = [row for row in own if row["seconds"]]
    differences = [(row["workload"], row["score"] - full["score"]) for row, full in beside]
    return {
        "blocks": len(own),
        "unreached": sum(not row["reached"] for row in own),
        "empty": sum(row["latency_s"] is None for row in own),
        "score": plain_interval([row["score"] for row in own]),
        "difference": plain_interval([one for _, one in differences]),
        "difference_over_workloads": over_workloads(differences),
        "latency_s": interval([row["latency_s"] for row in own if row["latency_s"]]),
        "latency_ratio": interval(
            [
                row["latency_s"] / full["latency_s"]
                for row, full in beside
                if row["latency_s"] and full["latency_s"]
            ]
        ),
        "trials_to_5pct": plain_interval([row["trials_to_5pct"] for row in own]),
        "seconds_to_5pct": plain_interval([row["seconds_to_5pct"] for row in timed]),
        "seconds": {
            stage: plain_interval([row["seconds"].get(stage, 0.0) for row in timed])
            for stage in (*STAGES, "total")
        },
    }


def over_workloads(values: Sequence[tuple[str, float]]) -> Interval:
    """{mean, low, high} over workloads, each by the mean of its values: what other workloads might have
    given. Seeds of one workload are much alike: many of them would feign what few workloads cannot tell."""
    by_workload: dict[str, list[float]] = {}
    for workload, value in values:
        by_workload.setdefault(workload, []).append(value)
    return plain_interval([sum(own) / len(own) for own in by_workload.values()])


def pairs(found: Sequence[Row]) -> dict[str, dict[str, Interval]]:
    """Of PAIRS, `FIRST-SECOND`: the difference of their scores over the blocks where both ended, and over
    their workloads."""
    scores = {_where(row, row["arm"]): row["score"] for row in found}
    blocks = {_where(row, ""): row for row in found}.values()
    made = {}
    for first, second in PAIRS:
        both = [
            (row["workload"], scores.get(_where(row, first)), scores.get(_where(row, second)))
            for row in blocks
        ]
        known = [(w, one - other) for w, one, other in both if one is not None and other is not None]
        if known:
            made[f"{first}-{second}"] = {
                "difference": plain_interval([one for _, one in known]),
                "difference_over_workloads": over_workloads(known),
            }
    return made


def speed_ups(blocks: Sequence[Block], arms: Sequence[str]) -> dict[str, dict[str, Interval]]:
    """By opponent and arm, how many times the arm's seconds the opponent took until near its own final
    result, see ratios.py. METASCHEDULE is the better of TVM's search on our compiling and timing, the other
    opponents are arms; only those that took part."""
    named = (Opponent(one, tuple(arm for arm in arms if arm == one)) for one in OPPONENTS)
    theirs = tuple(arm for arm in arms if arm.startswith(METASCHEDULE))
    opponents = [one for one in (Opponent(METASCHEDULE, theirs), *named) if one.arms]
    ours = [arm for arm in arms if not any(arm in one.arms for one in opponents)]
    return {one.name: _faster(blocks, ours, one) for one in opponents}


def _faster(blocks: Sequence[Block], arms: Sequence[str], opponent: Opponent) -> dict[str, Interval]:
    found = {arm: races(blocks, arm, opponent) for arm in arms}
    return {arm: interval([race.seconds for race in won.values()]) for arm, won in found.items() if won}
