"""The two files of a check: the manifest, which says what to run, and the records of what ran.

records.jsonl has one JSON object a line. `{"kind": "device", "manifest": …, "device": {…}}` says which GPU
ran what follows; `{"kind": "record", "program": …, …}` is one program (see `worker.Bench.program`).
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import RunError

FORMAT = 1
MANIFEST = "manifest.json"
RECORDS = "records.jsonl"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Raises RunError where there is none, one of another version, or one that is not as it was written."""
    try:
        manifest: Any = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(
            f"{folder} has no {MANIFEST}: run `tools/gpu_check.sh prepare` where the project is installed, "
            "and bring the whole folder."
        ) from None
    except OSError as error:
        raise RunError(f"{folder / MANIFEST} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise RunError(f"{folder / MANIFEST} is damaged ({error}): prepare the folder again.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise RunError(f"{folder / MANIFEST} is not of format {FORMAT}: prepare the folder again.")
    if manifest.pop("id", None) != (identity := identity_of(manifest)):
        raise RunError(f"{folder / MANIFEST} was changed after it was written: prepare the folder again.")
    return {"id": identity, **manifest}


def identity_of(body: dict[str, Any]) -> str:
    """What tells a manifest from others, and from itself when it is damaged: all of it but its `id`."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


@dataclass
class Records:
    """The records of one manifest. devices: as the GPU was described; records: each with the number of its
    device in `devices`."""

    manifest: dict[str, Any]
    devices: list[dict[str, Any]] = field(default_factory=list)
    records: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def add(self, line: dict[str, Any]) -> None:
        """Raises RunError for a line that does not belong here; ValueError, KeyError or TypeError for one
        that says too little."""
        if line["kind"] == "device":
            if line["manifest"] != self.manifest["id"]:
                raise RunError(
                    "the records are of programs that were prepared at another time: give the manifest.json "
                    "that they belong to, or put the old records elsewhere."
                )
            _need(
                isinstance(line["device"]["name"], str) and isinstance(line["device"]["arch"], str), "a GPU"
            )
            self.devices.append(line["device"])
        elif not self.devices:
            raise RunError("the records do not say on which GPU they were made: they are damaged.")
        else:
            self._check(line)
            self.records.append((len(self.devices) - 1, line))

    def _check(self, record: dict[str, Any]) -> None:
        number, failure = record["program"], record["failure"]
        _need(type(number) is int and 0 <= number < len(self.manifest["programs"]), "a program's number")
        _need(failure is None or isinstance(failure, str), "a kind of failure")
        _need(_seconds(record["run_s"]), "the seconds that it took")
        if failure is None:
            samples = record["samples_s"]
            _need(
                bool(samples) and all(map(_seconds, [*samples, record.get("median_s", 0.0)])), "its latency"
            )


def _need(given: bool, what: str) -> None:
    if not given:
        raise ValueError(f"it does not say {what}")


def _seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and value >= 0


def read_records(path: Path, manifest: dict[str, Any]) -> Records:
    """The records in the file, none where there is no file. A last line that was cut short is left out.
    Raises RunError for records of another manifest, and for a file that is none."""
    found = Records(manifest)
    for number, line in enumerate(_whole_lines(path).splitlines(), 1):
        try:
            found.add(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path}, line {number}, is no record ({error!r}): remove the line.") from None
        except RunError as error:
            raise RunError(f"{path}, line {number}: {error}") from None
    return found


class RecordFile:
    """records.jsonl, open for more. A line is on the disk when `append` returns."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.contents = read_records(path, manifest)
        whole = _whole_lines(path)
        try:
            if path.exists() and path.stat().st_size > len(whole):
                os.truncate(path, len(whole))
        except OSError as error:
            raise RunError(f"{path} cannot be written: {error.strerror}.") from error

    def append(self, line: dict[str, Any]) -> None:
        """Raises RunError when it cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"{self.path} cannot be written: {error.strerror}.") from error
        self.contents.add(line)


def _whole_lines(path: Path) -> bytes:
    """Without what follows the last newline: that was being written when a run died."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}. Give another place as --out.") from None
    return text[: text.rfind(b"\n") + 1]
