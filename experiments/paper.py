"""What the paper reports of its ablations (Pruner, ASPLOS 2025), for the tables to stand beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.intervals import shown

_WHOLE = "full"

# Table 12: ResNet-50 on a TITAN V after 2,000 trials, milliseconds.
_ONLINE_MS = {
    "full": 1.782,
    "no_draft": 1.995,
    "no_dataflow": 1.930,
    "no_statement": 1.863,
    "no_adaptation": 1.828,
    "finetune": 1.812,
    "metaschedule_64": 2.019,  # there it is Ansor
}
# Latency over that of the whole, as `latency_ratio` of an ablation.
LATENCY_RATIO = {arm: ms / _ONLINE_MS[_WHOLE] for arm, ms in _ONLINE_MS.items()}

# By opponent and arm, the opponent's search time over the arm's until as good: ten networks on three GPUs,
# TLP on one (section 7). Where it is Ansor there, it is TVM's present tuner here.
_ANSOR = {"full": 4.82, "no_adaptation": 2.60}
SPEED_UP = {
    "metaschedule": _ANSOR,
    "stock": _ANSOR,
    "offline_tenset_mlp": {"offline": 4.75},
    "offline_tlp": {"offline": 4.05},
}

# Table 11: top-1 of models trained on 6 million records, on a T4 and a K80.
_TOP1 = {"pacm": "0.892, 0.897", "tenset_mlp": "0.859, 0.878", "tlp": "0.862, 0.880"}


def beside(study: str, document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Rows of the paper's figures and a study's, where both have one: what, theirs, ours, how ours was
    measured."""
    made = {"ablation": _ablation, "compare": _compare, "cost_model": _cost_model}.get(study)
    return made(document) if made else []


def _ablation(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    how = f"{document['measure']}, {document['blocks']} blocks of {document['trials']} trials"
    lines = [
        (
            f"latency of {arm} over {_WHOLE}'s",
            f"{LATENCY_RATIO[arm]:.3f}",
            shown(found["latency_ratio"], 3),
            how,
        )
        for arm, found in document["arms"].items()
        if arm in LATENCY_RATIO and arm != _WHOLE
    ]
    lines += [
        (_searching(opponent, arm), f"{theirs:.2f}", shown(found), how)
        for opponent, arms in document["speed_ups"].items()
        for arm, found in arms.items()
        if (theirs := SPEED_UP[opponent].get(arm)) is not None
    ]
    return lines


def _searching(opponent: str, arm: str) -> str:
    """What a figure of SPEED_UP is of."""
    whose = f"Ansor, here {opponent}," if SPEED_UP[opponent] is _ANSOR else opponent
    return f"search time of {whose} over {arm}'s"


def _compare(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    found = document["against"].get("metaschedule")
    if not found:
        return []
    how = f"seconds to within 1 % of its result, {found['blocks']} blocks of {document['trials']} trials"
    what = f"{_searching('metaschedule', document['ours'])} (Pruner there)"
    return [(what, f"{_ANSOR['no_adaptation']:.2f}", shown(found["seconds"]), how)]


def _cost_model(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    how = f"{document['programs']:,} records of {document['device']}, split={document['split']}"
    return [
        (f"top-1 of {label}", _TOP1[label], shown(found["top1"], 3), how)
        for label, found in document["summary"].items()
        if label in _TOP1
    ]
