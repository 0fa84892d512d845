"""The forms of the instructions that a recorded trace may hold: TVM takes them for what they should be."""

from __future__ import annotations

import math
import re
from collections.abc import Container
from typing import Any

from pruner.errors import ConfigError
from pruner.records.node_graph import check_todays
from pruner.records.reading import parse

# Values as instructions name them: blocks, loops and numbers.
NAME = re.compile(r"[blv][0-9]+")
# What MetaSchedule writes before its post-processing, by today's names: inputs and attributes as `_letter`
# spells them.
_FORMS = {
    "SamplePerfectTile": ("v", "ii"),
    "SampleCategorical": ("", "I[IF]"),
    "SampleComputeLocation": ("v", ""),
    "GetSBlock": ("", "ss"),
    **dict.fromkeys(
        ("GetLoops", "GetChildBlocks", "GetProducers", "GetConsumers", "GetOutputBlocks"), ("v", "")
    ),
    "Split": ("v[vin]+", "ii"),
    "Fuse": ("v+", "i"),
    "Reorder": ("v+", ""),
    "Bind": ("v", "s"),
    **dict.fromkeys(("AddUnitLoop", "Parallel", "Vectorize", "Unroll"), ("v", "")),
    **dict.fromkeys(("CacheRead", "CacheWrite"), ("v[VE]", "is")),
    **dict.fromkeys(("ReindexCacheRead", "ReindexCacheWrite"), ("vg", "is")),
    "ReIndex": ("v", "ii"),
    **dict.fromkeys(("ComputeAt", "ReverseComputeAt"), ("vv", "ii")),
    **dict.fromkeys(("ComputeInline", "ReverseComputeInline"), ("v", "")),
    "DecomposeReduction": ("vv", ""),
    "RFactor": ("v", "i"),
    "StorageAlign": ("v", "iiii"),
    "SetScope": ("v", "is"),
    "Blockize": ("[vV]", "i"),
    "Tensorize": ("v", "si"),
    "Annotate": ("v[vsiISE]", "s"),
    "Unannotate": ("v", "s"),
    "TransformLayout": ("vg", "ii[sn]i"),
    "TransformBlockLayout": ("v", "s"),
    "PadEinsum": ("v", "I"),
}
# Annotations that are counts: of loops, lanes, threads and steps.
_COUNTS = [
    [f"meta_schedule.{name}"]
    for name in (
        *("parallel", "vectorize", "unroll_explicit", "unroll_implicit", "cooperative_fetch"),
        *("thread_extent_low_inclusive", "thread_extent_high_inclusive"),
    )
]
_COUNT = ("v[vi]", "s")
_LARGEST = 1 << 31


def check_form(name: str, inputs: list[Any], attributes: list[Any], names: Container[str]) -> None:
    """names: of the values that there are. Raises ValueError, with a short reason, for an instruction that
    MetaSchedule does not write, or not so."""
    if name not in _FORMS:
        raise ValueError("unknown instruction")
    counts = name == "Annotate" and attributes[:1] in _COUNTS
    forms = _COUNT if counts else _FORMS[name]
    letters = "".join(_letter(value, names) for value in inputs), "".join(map(_letter, attributes))
    if not all(re.fullmatch(form, spelt) for form, spelt in zip(forms, letters, strict=True)):
        raise ValueError("instruction form")
    if counts and isinstance(inputs[1], int) and inputs[1] < 0:  # TVM would look for that many without end
        raise ValueError("negative count")
    _check_graphs([inputs, attributes])


def _letter(value: Any, names: Container[str] | None = None) -> str:
    """For an integer i, None n, text s; for a list of integers I, texts S, numbers F, of nothing E; for
    anything else x. names: of values, where it is an input: text that is no name (v, a list of them V) is
    None, an index map (g), or in quotes."""
    if isinstance(value, list):
        found = "".join(sorted({_letter(each, names) for each in value}))
        return {"": "E", "i": "I", "s": "S", "v": "V", "f": "F", "fi": "F"}.get(found, "x")
    if isinstance(value, int):
        return "i" if -_LARGEST <= value < _LARGEST else "x"
    if isinstance(value, float):
        return "f" if math.isfinite(value) else "x"
    if not isinstance(value, str):
        return "n" if value is None else "x"
    if names is None:
        return "s"
    if value in names:
        return "v"
    return "n" if value == "None" else {'""': "s", "{}": "g"}.get(value[:1] + value[-1:], "x")


def _check_graphs(values: list[Any]) -> None:
    """Raises ValueError for text that TVM would read a node graph in, as deep as it is, and that is none of a
    program: an index map."""
    left = list(values)
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, str) and ("{" in value or "[" in value):
            try:
                check_todays(parse(value))
            except (ValueError, ConfigError):
                raise ValueError("text that is no index map") from None
