"""Random damage to record files: of characters, of lines, and of values inside the JSON they hold."""

import base64
import json
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator

VALUES: list[Any] = [
    *(
        0,
        -1,
        1,
        7,
        10**6,
        2**40,
        10**30,
        -(10**400),
        1.5,
        float("nan"),
        float("inf"),
        1e10,
        True,
        None,
        "",
        "x",
        "0",
        "b1",
    ),
    *([], {}, [[]], [0, 0], "None", "l5", "../../etc/passwd", "tir.call_extern", "handle"),
]


def damaged(lines: list[str], rng: Rng) -> list[str]:
    """A copy with one to three damages."""
    lines = list(lines)
    for _ in range(int(rng.integers(1, 4))):
        damage = _DAMAGES[int(rng.integers(len(_DAMAGES)))]
        position = int(rng.integers(len(lines)))
        lines[position : position + 1] = damage(lines[position], rng)
    return lines


def _character(line: str, rng: Rng) -> list[str]:
    at = int(rng.integers(max(len(line), 1)))
    return [line[:at] + chr(int(rng.integers(32, 127))) + line[at + 1 :]]


def _cut(line: str, rng: Rng) -> list[str]:
    return [line[: int(rng.integers(len(line) + 1))]]


def _extra(line: str, rng: Rng) -> list[str]:
    return [["", "# a comment", "[]", "{}", "null", "[" * 5000, line][int(rng.integers(7))], line]


def _value(line: str, rng: Rng) -> list[str]:
    """One value of the line replaced, inside base64 text too."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return [line]
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], str):
        try:
            data = base64.b64decode(value[1])
            text = json.dumps(changed(json.loads(data[8:]), rng)).encode()
        except ValueError:
            return [line]
        value[1] = base64.b64encode(len(text).to_bytes(8, "little") + text).decode()
    else:
        value = changed(value, rng)
    return [json.dumps(value)]


def changed(value: Any, rng: Rng) -> Any:
    """The value with one leaf of it, or now and then a whole part, replaced."""
    if not isinstance(value, (list, dict)) or not value or rng.random() < 0.03:
        if isinstance(value, str) and value.isdigit() and rng.random() < 0.5:
            return str(int(rng.integers(0, 3000)))
        return VALUES[int(rng.integers(len(VALUES)))]
    keys = list(range(len(value))) if isinstance(value, list) else list(value)
    key = keys[int(rng.integers(len(keys)))]
    value[key] = changed(value[key], rng)
    return value


_DAMAGES: list[Callable[[str, Rng], list[str]]] = [_character, _cut, _extra, _value, _value, _value]
