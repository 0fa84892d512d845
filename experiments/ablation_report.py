"""The tables of an ablation, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from experiments import paper
from experiments.ablation_rows import NEAR_BEST
from experiments.ablation_summary import FULL
from experiments.intervals import shown, verdict
from experiments.output import heading, table
from pruner.measure.clock import STAGES

_NOTES = f"""\
The score is the mean, over the trials named, of the best known latency over the lowest that the arm had found
by then. difference: to `{FULL}` in the same block. over workloads: the same, the seeds of a workload counting
as one, which tells of other workloads too; better or worse means that this interval excludes 0. latency: at
the end, over that of `{FULL}`. near: within {NEAR_BEST:.0%} of the best known latency; an arm that never was
counts with all trials, and with the seconds of the longest arm. Means with 95 % bootstrap intervals,
geometric of ratios."""
_REPLAY = """\
Replay: nothing was run. The pool of a task is what one tuner recorded, its failures included, so that an arm
can find nothing that this tuner did not. seconds: those recorded for building and running, and our own
computing beside them{more}."""
_LOCAL = """\
The best known latency of a workload is the lowest of all arms and seeds. Latencies are those of the programs
the arms held, timed again in turn at the end of their block."""


def text(study: str, document: Mapping[str, Any]) -> str:
    """NAME.md from the study's document."""
    looks = ", ".join(map(str, document["looks"]))
    lines = [
        heading(study, document),
        f"base {document['base']} ({', '.join(document['base_overrides'])}), {document['trials']} trials "
        f"an arm, score after {looks}; {document['blocks']} blocks: {', '.join(document['workloads'])} with "
        f"seeds {', '.join(map(str, document['seeds']))}.\n",
        _arms(document),
    ]
    if document["pairs"]:
        lines += ["", "Differences of scores:\n", _pairs(document)]
    if document["speed_ups"]:
        lines += ["\nTimes fewer seconds to the opponent's final result:\n", _faster(document)]
    lines += ["\nSeconds by stage:\n", _stages(document)] if _timed(document) else []
    lines += ["\nScores by workload, means over seeds:\n", _workloads(document), f"\n{_NOTES}"]
    if document["measure"] == "replay":
        known = (
            f"; {document['trial_s']:g} s a trial where nobody kept the first" if document["trial_s"] else ""
        )
        blank = "" if _timed(document) else "; blank, as studies ran beside one another"
        lines.append("\n" + _REPLAY.format(more=known + blank))
    else:
        lines.append("\n" + _LOCAL)
    machines = {row["machine"] for row in document["results"]} - {document["machine"]}
    if machines:
        lines.append("\nBlocks were also made on: " + "; ".join(sorted(machines)) + ".")
    if document["left_out"]:
        lines.append("\nLeft out: " + "; ".join(document["left_out"]) + ".")
    failed = [row for row in document["results"] if row["error"]]
    for row in document["results"]:
        lines += [
            f"\n{row['arm']} on {row['workload']} with seed {row['seed']}: {note}" for note in row["notes"]
        ]
    for row in failed:
        lines.append(f"\n{row['arm']} on {row['workload']} with seed {row['seed']} failed: {row['error']}")
    return "\n".join(lines)


def _timed(document: Mapping[str, Any]) -> bool:
    return any(found["seconds"]["total"]["mean"] is not None for found in document["arms"].values())


def _arms(document: Mapping[str, Any]) -> str:
    lines = []
    for arm, found in document["arms"].items():
        own = arm == FULL
        lines.append(
            [
                arm,
                found["blocks"],
                shown(found["score"], 3),
                *([None, None] if own else _differences(found)),
                None if own else shown(found["latency_ratio"], 3),
                _paper(arm),
                shown(found["trials_to_5pct"], 1),
                shown(found["seconds_to_5pct"], 0),
                _unreached(found),
                _failed([row for row in document["results"] if row["arm"] == arm]),
            ]
        )
    columns = [
        "arm",
        "blocks",
        "score",
        "difference",
        "over workloads",
        "latency",
        "in the paper",
        "trials to near",
        "seconds",
        "never near in",
        "failed trials",
    ]
    return table(columns, lines)


def _differences(found: Mapping[str, Any]) -> list[str | None]:
    """Over blocks, and over workloads with the verdict; blank where there is nothing to differ from."""
    workloads = found["difference_over_workloads"]
    if workloads["mean"] is None:
        return [None, None]
    return [shown(found["difference"], 3), f"{shown(workloads, 3)} {verdict(workloads, 0.0)}"]


def _unreached(found: Mapping[str, Any]) -> str:
    """Blocks in which it never came near."""
    if not found["unreached"]:
        return "none"
    empty = f", without any in {found['empty']}" if found["empty"] else ""
    return f"{found['unreached']}{empty}"


def _failed(rows: Sequence[Mapping[str, Any]]) -> str:
    """Its failed trials by kind."""
    kinds: Counter[str] = Counter()
    for row in rows:
        kinds.update(row["failures"])
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"


def _paper(arm: str) -> str | None:
    ratio = paper.LATENCY_RATIO.get(arm)
    return None if ratio is None or arm == FULL else f"{ratio:.3f}"


def _faster(document: Mapping[str, Any]) -> str:
    """A column for every opponent, and one where the paper has figures."""
    columns, cells = ["arm"], [[arm] for arm in document["arms"]]
    for opponent, found in document["speed_ups"].items():
        columns += [f"than {opponent}", "in the paper"]
        for line in cells:
            ours, theirs = found.get(line[0]), paper.SPEED_UP.get(opponent, {}).get(line[0])
            line += [shown(ours) if ours else None, None if theirs is None else f"{theirs:.2f}"]
    return table(columns, [line for line in cells if any(line[1:])])


def _pairs(document: Mapping[str, Any]) -> str:
    lines = [[name.replace("-", " less "), *_differences(found)] for name, found in document["pairs"].items()]
    return table(["", "difference", "over workloads"], lines)


def _stages(document: Mapping[str, Any]) -> str:
    stages = (*STAGES, "total")
    lines = []
    for arm, found in document["arms"].items():
        means = [found["seconds"][stage]["mean"] for stage in stages]
        lines.append([arm, *(None if mean is None else f"{mean:.1f}" for mean in means)])
    return table(["arm", *stages], lines)


def _workloads(document: Mapping[str, Any]) -> str:
    lines = []
    for arm in document["arms"]:
        own = [document["workloads"][workload]["arms"].get(arm) for workload in document["workloads"]]
        lines.append([arm, *(None if one is None else shown(one, 3) for one in own)])
    return table(["arm", *document["workloads"]], lines)
