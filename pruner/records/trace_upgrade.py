"""Traces of older TVM versions, as JSON values, brought to the form that today's TVM replays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.records.instruction_forms import NAME, check_form
from pruner.records.reading import parse

# Instructions by name: today's name, how many inputs and attributes it has, and what fills up those that an
# older version did not write.
_RENAMED = {"GetBlock": "GetSBlock"}
_INPUTS: dict[str, tuple[int, list[Any]]] = {"CacheRead": (2, [[]]), "CacheWrite": (2, [[]])}
_ATTRIBUTES: dict[str, tuple[int, list[Any]]] = {
    "Split": (2, [0]),  # no predicate is left out
    "ComputeAt": (2, [-1]),  # to the last place
    "ReverseComputeAt": (2, [-1]),
    "Blockize": (1, [1]),  # unit iterators are kept
    "Tensorize": (2, [1]),
}
_POSTPROCESSING = "EnterPostproc"
_INSTRUCTIONS = 1000
_PARTS = 16
_LARGEST = 1 << 31

Decisions = dict[int, Any]


@dataclass(frozen=True)
class Template:
    """The instructions of traces that differ in their decisions alone, up to their post-processing.

    text: as JSON, which tells templates apart. recorded: how many there were before they were cut."""

    instructions: list[list[Any]]
    text: str
    recorded: int


def upgrade(recorded: list[Any]) -> Template:
    """The template of a trace's recorded instructions. Raises ValueError, with a short reason, for what are
    no instructions or of other forms than MetaSchedule's, and for numbers that TVM would divide by although
    they are 0."""
    instructions: list[list[Any]] = []
    names: set[str] = set()
    for instruction in recorded[: _INSTRUCTIONS + 1]:
        if not _is_instruction(instruction):
            raise ValueError("instruction form")
        name, inputs, attributes, outputs = instruction
        if name == _POSTPROCESSING:
            break
        if name == "Split" and not all(value >= 1 for value in inputs[1:] if _is_integer(value)):
            raise ValueError("split by no positive factor")
        inputs = _filled(inputs, *_INPUTS.get(name, (0, [])))
        attributes = _filled(attributes, *_ATTRIBUTES.get(name, (0, [])))
        name = _RENAMED.get(name, name)
        check_form(name, inputs, attributes, names)
        names.update(outputs)
        instructions.append([name, inputs, attributes, outputs])
    if len(instructions) > _INSTRUCTIONS:
        raise ValueError("too many instructions")
    return Template(instructions, json.dumps(instructions), len(recorded))


def decide(template: Template, recorded: list[Any]) -> Decisions:
    """The recorded decisions of a template's instructions, by number. Raises ValueError, with a short reason,
    unless every sampling instruction has one of its form: TVM would sample the rest by itself."""
    decisions: Decisions = {}
    for decision in recorded:
        if not isinstance(decision, list) or len(decision) != 2 or not _is_integer(decision[0]):
            raise ValueError("decision form")
        number, value = decision
        if not 0 <= number < template.recorded or number in decisions:
            raise ValueError("decision of no instruction")
        if number < len(template.instructions):
            decisions[number] = value
    for number, (name, _, attributes, _) in enumerate(template.instructions):
        if name in _DECIDED:
            if number not in decisions:
                raise ValueError("decision missing")
            if not _DECIDED[name](attributes, decisions[number]):
                raise ValueError("decision form")
        elif number in decisions:
            raise ValueError("decision of no sampling")
    return decisions


@dataclass(frozen=True)
class Sampling:
    """A sampling instruction, whose decision a row holds from column `start` to before `stop`. tile: whether
    it is a list of factors."""

    number: int
    name: str
    attributes: list[Any]
    start: int
    stop: int
    tile: bool


def samplings(instructions: Any) -> Iterator[Sampling]:
    """The sampling instructions of a trace, in order. Raises ValueError, with a short reason, for what is
    none."""
    if not isinstance(instructions, list) or not all(map(_is_instruction, instructions)):
        raise ValueError("instruction form")
    start = 0
    for number, (name, _, attributes, _) in enumerate(instructions):
        if name in _DECIDED:
            tile = name == "SamplePerfectTile"
            if tile and not (attributes and _is_integer(attributes[0]) and 1 <= attributes[0] <= _PARTS):
                raise ValueError("sampling form")
            stop = start + (attributes[0] if tile else 1)
            yield Sampling(number, name, attributes, start, stop, tile)
            start = stop


def check_rows(signature: str, rows: NDArray[np.int64]) -> None:
    """Raises ValueError, with a short reason, unless the signature is that of a sketch and each of the rows,
    `n x d` int64, is one of its form: the checks of `decide`."""
    instructions = parse(signature)
    for sampling in samplings(instructions):
        mine = rows[:, sampling.start : sampling.stop]
        if mine.shape[1] < sampling.stop - sampling.start:
            raise ValueError("row too short")
        # What is accepted are ranges.
        for values in (mine.min(axis=0).tolist(), mine.max(axis=0).tolist()) if len(mine) else ():
            if not _DECIDED[sampling.name](sampling.attributes, values if sampling.tile else values[0]):
                raise ValueError("decision form")
    upgrade(instructions)


def _is_instruction(value: Any) -> bool:
    """`[name, inputs, attributes, outputs]` of any form."""
    return (
        isinstance(value, list)
        and len(value) == 4
        and isinstance(value[0], str)
        and all(isinstance(part, list) for part in value[1:])
        and all(isinstance(output, str) and NAME.fullmatch(output) for output in value[3])
    )


def _filled(values: list[Any], needed: int, rest: list[Any]) -> list[Any]:
    return [*values, *rest] if len(values) + len(rest) == needed else values


def _is_tile(attributes: list[Any], value: Any) -> bool:
    if len(attributes) != 2 or not all(map(_is_integer, attributes)):
        return False
    parts, innermost = attributes
    return (
        1 <= parts <= _PARTS
        and (innermost == -1 or innermost >= 1)
        and isinstance(value, list)
        and len(value) == parts
        and all(_is_integer(factor) and 1 <= factor < _LARGEST for factor in value)
    )


def _is_category(attributes: list[Any], value: Any) -> bool:
    if len(attributes) != 2 or not all(isinstance(part, list) for part in attributes):
        return False
    values, probabilities = attributes
    return (
        len(values) == len(probabilities)
        and all(_is_integer(each) and 0 <= each < _LARGEST for each in values)
        and _is_integer(value)
        and 0 <= value < len(values)
    )


def _is_location(attributes: list[Any], value: Any) -> bool:
    return _is_integer(value) and -2 <= value < _INSTRUCTIONS


_DECIDED: dict[str, Callable[[list[Any], Any], bool]] = {
    "SamplePerfectTile": _is_tile,
    "SampleCategorical": _is_category,
    "SampleComputeLocation": _is_location,
}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
