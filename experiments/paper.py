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

# How many times the search time of Ansor theirs is, ten networks on three GPUs (section 7).
SPEED_UP = {"full": 4.82, "no_adaptation": 2.60}

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
        (f"search time of Ansor, here {opponent}, over {arm}'s", f"{SPEED_UP[arm]:.2f}", shown(found), how)
        for opponent, arms in document["speed_ups"].items()
        for arm, found in arms.items()
        if arm in SPEED_UP
    ]
    return lines


def _compare(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    found = document["against"].get("metaschedule")
    if not found:
        return []
    how = f"seconds to within 1 % of its result, {found['blocks']} blocks of {document['trials']} trials"
    what = f"search time of Ansor, here MetaSchedule, over {document['ours']}'s (Pruner there)"
    return [(what, f"{SPEED_UP['no_adaptation']:.2f}", shown(found["seconds"]), how)]


def _cost_model(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    how = f"{document['programs']:,} records of {document['device']}, split={document['split']}"
    return [
        (f"top-1 of {label}", _TOP1[label], shown(found["top1"], 3), how)
        for label, found in document["summary"].items()
        if label in _TOP1
    ]
