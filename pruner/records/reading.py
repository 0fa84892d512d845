"""What readers of records share: bounded lines, guarded JSON, run times, a tally of what was left out."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import statistics
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError

if TYPE_CHECKING:
    from pruner.records.dataset import Dataset

LINE_BYTES = 16 << 20
FILE_BYTES = 2 << 30  # unpacked
DEPTH = 64
# The seconds that TVM writes for a program that failed, and from how many on it is taken for that.
FAILURE_MARK_S = 1e10
FAILED_S = 1e9
# Reasons of `seconds` that are a failed measurement; the others are a value that no measurement gives.
NOT_RUN = ("no run times", "failure mark")

# How the reason begins of every record that ran and whose trace today's TVM refuses.
NOT_REPLAYED = "not replayed"
# And of those that failed besides.
FAILED_NOT_REPLAYED = "failed, and not replayed"

# Called with what is read, how many of its records are done, and of how many (0: not known).
Progress = Callable[[str, int, int], None]

_GZIP = b"\x1f\x8b"
# Escapes go first, which stand in strings alone: what is left of a string has no quote in it, and one that is
# not closed reaches to the end.
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_STRING = re.compile(r'"[^"]*(?:"|\Z)')
_EXAMPLES = 10_000
_SHOWN = 3


@dataclass
class Report:
    """What a reader met. seen: lines that are records. skipped: how many of them have no place in the data
    set, by reason. examples: `file:line: reason` of the first 10,000 of each. by_task: `skipped` of each
    task, by its id, as far as it is known what task a record was of."""

    seen: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    by_task: dict[str, dict[str, int]] = field(default_factory=dict)

    def skip(
        self, path: str | os.PathLike[str], line: int, reason: str, detail: str = "", *, task: str = ""
    ) -> None:
        """Counts a record that is left out. reason: a short noun; detail: what there is to say about this
        one; task: the id of its task, where that much of it could be read."""
        _count(self.skipped, {reason: 1})
        if task:
            _count(self.by_task.setdefault(task, {}), {reason: 1})
        kept = self.examples.setdefault(reason, [])
        if len(kept) < _EXAMPLES:
            kept.append(f"{path}:{line}: {reason}{f' ({detail})' if detail else ''}")

    def __add__(self, other: Report) -> Report:
        both = Report(self.seen + other.seen)
        for each in (self, other):
            _count(both.skipped, each.skipped)
            for task, skipped in each.by_task.items():
                _count(both.by_task.setdefault(task, {}), skipped)
        for reason in both.skipped:
            kept = [*self.examples.get(reason, ()), *other.examples.get(reason, ())]
            both.examples[reason] = kept[:_EXAMPLES]
        return both

    def summary(self) -> str:
        """How many records were seen and left out, and the first of each kind."""
        left_out = sum(self.skipped.values())
        if not left_out:
            return f"{self.seen:,} records, none skipped"
        lines = [f"{self.seen:,} records, {left_out:,} skipped"]
        for reason, count in sorted(self.skipped.items(), key=lambda item: -item[1]):
            lines.append(f"  {count:,} {reason}")
            lines += [f"    {example}" for example in self.examples[reason][:_SHOWN]]
        return "\n".join(lines)


class Recorded(NamedTuple):
    """The records of a source, and what of it was left out."""

    dataset: Dataset
    report: Report


def _count(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for reason, count in more.items():
        counts[reason] = counts.get(reason, 0) + count


def within(value: object, least: float, most: float) -> bool:
    """Whether a JSON value is a number of this range, bounds included: NaN is not, nor is an integer that no
    float can hold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


class LineTooLong(ConfigError):
    """A file has a line that no record has."""


def lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """The numbered lines of a plain or gzip file, from 1, without blank ones and `#` comments.

    Raises ConfigError, naming file and line, when it cannot be read or unpacked, for a line over 16 MiB
    (LineTooLong) and for a file over 2 GiB unpacked."""
    number, size = 0, 0
    try:
        with _open(Path(path)) as file:
            while line := file.readline(LINE_BYTES + 1):
                number, size = number + 1, size + len(line)
                if len(line) > LINE_BYTES:
                    raise LineTooLong(
                        f"{path}, line {number} is longer than {LINE_BYTES >> 20} MiB: no record is."
                    )
                if size > FILE_BYTES:
                    raise ConfigError(
                        f"{path} is larger than {FILE_BYTES >> 30} GiB, at line {number}: split the file."
                    )
                text = line.decode("utf-8", errors="replace").strip()
                if text and not text.startswith("#"):
                    yield number, text
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read, at line {number + 1}: {error.strerror or error}."
        ) from error
    except (EOFError, zlib.error) as error:
        raise ConfigError(
            f"{path} cannot be unpacked, at line {number + 1}: {error}. Fetch the file anew."
        ) from error


def _open(path: Path) -> BinaryIO:
    """Plain or unpacked, by what the file begins with."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def parse(line: str) -> Any:
    """The JSON value of a line; NaN and Infinity are floats. Raises ValueError with a short reason for text
    that is no JSON, is cut short, is nested deeper than 64 or holds half a character."""
    if line.count("[") + line.count("{") > DEPTH and _depths(line).max() > DEPTH:
        raise ValueError("nesting too deep")
    try:
        value = json.loads(line)
        if "\\u" in line:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nesting too deep") from None
    except UnicodeEncodeError:
        raise ValueError("half a character") from None
    except json.JSONDecodeError as error:
        cut = error.msg.startswith("Unterminated string") or _depths(line)[-1] > 0
        raise ValueError("truncated line" if cut else "no JSON") from None
    except ValueError:  # an integer of thousands of digits
        raise ValueError("number too long") from None
    return value


def _depths(line: str) -> NDArray[np.int64]:
    """Brackets that are open after each character outside strings; one value at least."""
    text = _STRING.sub(" ", _ESCAPE.sub("", line))
    characters = np.frombuffer(text.encode() or b" ", dtype=np.uint8)
    opened = (characters == ord("[")) | (characters == ord("{"))
    closed = (characters == ord("]")) | (characters == ord("}"))
    return np.cumsum(opened.astype(np.int64) - closed)


def not_replayed(reason: str, *, ran: bool) -> str:
    """What to skip a record for whose trace today's TVM refuses. ran: when it was measured."""
    return f"{NOT_REPLAYED if ran else FAILED_NOT_REPLAYED}: {reason}"


def seconds(values: Any) -> tuple[float, float] | str:
    """Mean and standard deviation of a list of run times, seconds; the deviation is NaN where there is but
    one. Or why there is none: see NOT_RUN for those that say that a program failed."""
    if not isinstance(values, list):
        return "run times no list"
    if not values:
        return "no run times"
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in values):
        return "run time no number"
    if any(value >= FAILED_S and value != math.inf for value in values):
        return "failure mark"
    if any(value != value for value in values):
        return "run time NaN"
    if any(abs(value) == math.inf for value in values):
        return "run time infinite"
    if any(value <= 0 for value in values):
        return "run time 0" if min(values) == 0 else "run time negative"
    times = [float(value) for value in values]  # an integer out of range of floats was refused above
    return statistics.fmean(times), statistics.pstdev(times) if len(times) > 1 else math.nan
