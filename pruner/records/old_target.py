"""Targets as records hold them, made into targets of today."""

from __future__ import annotations

from typing import Any

from tvm.target import Target, TargetKind

from pruner.target import described

# What makes two machines of a kind different, as far as a target says it.
_NAMING = ("model", "arch", "mcpu", "device")


def todays_target(recorded: Any) -> Target:
    """The target of a record: a dict, or the text of older versions. Options that this TVM does not know are
    left out. Raises ValueError, `target: detail`, for one that it cannot make."""
    try:
        description = described(recorded) if isinstance(recorded, str) else recorded
        if not isinstance(description, (str, dict)):
            raise ValueError(f"a {type(recorded).__name__}; an object or text is needed")
        if isinstance(description, dict) and "kind" in description:
            description = _known(description)
        return Target(description)
    except Exception as error:  # TVM raises its own kinds of error
        lines = str(error).splitlines() or [""]
        raise ValueError(f"target: {lines[-1][:200]}") from error


def _known(description: dict[str, Any]) -> dict[str, Any]:
    kind = str(description.get("kind", ""))
    accepted = {"kind", "tag", "keys", "host", *TargetKind.options_from_name(kind)}
    kept = {name: value for name, value in description.items() if name in accepted and value != ""}
    if isinstance(kept.get("host"), dict):
        kept["host"] = _known(kept["host"])
    return kept


def device_of(target: Target) -> str:
    """What the target says of the machine: its kind, and its model or architecture."""
    named = [
        str(target.attrs[name]) for name in _NAMING if target.attrs.get(name) not in (None, "unknown", "")
    ]
    cores = target.attrs.get("num-cores")
    return " ".join([target.kind.name, *named, *([f"{cores} cores"] if cores is not None else [])])
