"""Targets as records hold them, made into targets of today."""

from __future__ import annotations

import json
from typing import Any

from tvm.target import Target, TargetKind

from pruner.records.reading import parse
from pruner.search.materialise import reason_of
from pruner.target import described

# Characters of a recorded target; real ones have a few hundred.
LONGEST = 4096
# What makes two machines of a kind different, as far as a target says it.
_NAMING = ("model", "arch", "mcpu", "device")


def todays_target(recorded: Any) -> Target:
    """The target of a record, as `todays_description` reads it. Raises ValueError, `target: detail`, for one
    that this TVM cannot make."""
    try:
        return Target(todays_description(recorded))
    except Exception as error:  # TVM raises its own kinds of error
        raise ValueError(f"target: {reason_of(error)[:200]}") from error


def todays_description(recorded: Any) -> str | dict[str, Any] | Target:
    """What TVM is to make of a record's target: a dict, or the text of older versions. Options that this TVM
    does not know, and those for LLVM's own command line, are left out. Raises ValueError or ConfigError for
    what describes no target."""
    if not isinstance(recorded, (str, dict)):
        raise ValueError(f"a {type(recorded).__name__}; an object or text is needed")
    text = recorded.strip() if isinstance(recorded, str) else json.dumps(recorded)
    if len(text) > LONGEST:
        raise ValueError(f"{len(text):,} characters; up to {LONGEST:,} are read")
    description = parse(text) if text.startswith("{") else described(text)
    return _known(description) if isinstance(description, dict) and "kind" in description else description


def _known(description: dict[str, Any]) -> dict[str, Any]:
    kind = str(description["kind"])
    if kind not in map(str, Target.list_kinds()):
        raise ValueError(f"this TVM has no target kind {kind[:40]!r}")
    accepted = {"kind", "tag", "keys", "host", *TargetKind.options_from_name(kind)} - {"cl-opt"}
    kept = {name: value for name, value in description.items() if name in accepted and value != ""}
    if isinstance(kept.get("host"), (str, dict)):
        kept["host"] = todays_description(kept["host"])
    return kept


def device_of(target: Target) -> str:
    """What the target says of the machine: its kind, and its model or architecture."""
    named = [
        str(target.attrs[name]) for name in _NAMING if target.attrs.get(name) not in (None, "unknown", "")
    ]
    cores = target.attrs.get("num-cores")
    return " ".join([target.kind.name, *named, *([f"{cores} cores"] if cores is not None else [])])
