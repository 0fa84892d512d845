"""The journal: what a run did, line by line. Everything else in its folder is derived from it.

One JSON object a line, `kind` first: a header, then trials, rounds and confirmations as they happen, and an
end. Lines are only ever appended, and are on the disk when `append` returns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from pruner.errors import ConfigError

FORMAT = 1
NAME = "journal.jsonl"


@dataclass(frozen=True)
class Header:
    """What was tuned, where and how: two runs may share a folder only if all of `identity` is equal.

    workload_hash: structural hash of the module, hex. target: as a JSON object. threads: asked for;
    runtime_threads: what TVM's runtime really uses. fingerprint: of the machine (see Device). timed: False
    where programs are compiled only (measure=compile): no latency is there then. replayed: True where the
    trials are records of the machine with this fingerprint, and nothing was measured.
    """

    kind: ClassVar[str] = "header"
    workload: str
    workload_hash: str
    target: dict[str, Any]
    device: str
    fingerprint: str
    threads: int
    runtime_threads: int
    seed: int
    settings: dict[str, Any]
    versions: dict[str, str]
    format: int = FORMAT
    timed: bool = True
    replayed: bool = False

    @property
    def identity(self) -> dict[str, Any]:
        """What makes it the same run, by the name a user knows it by; as it reads back from a file, where
        a tuple is a list."""
        fields = {
            "workload": f"{self.workload} ({self.workload_hash})",
            "target": self.target,
            "machine": f"{self.device} {self.fingerprint}".strip(),
            "threads": self.threads,
            "seed": self.seed,
            "settings": self.settings,
        }
        read_back: dict[str, Any] = json.loads(json.dumps(fields))
        return read_back


@dataclass(frozen=True)
class Baseline:
    """The untuned program; the seconds are None where it could not be timed."""

    kind: ClassVar[str] = "baseline"
    latency_s: float | None
    spread_s: float | None
    failure: str | None = None
    message: str = ""


@dataclass(frozen=True)
class Trial:
    """One measured candidate. trial counts from 1. key: the candidate's key, hex. trace: the whole trace,
    post-processing included; of a replay, as it was decided. elapsed_s: since the run started. The rest as in
    Measurement.

    Of a run that times nothing: resources: registers, spill_bytes, shared_bytes, stack_bytes and cubin_bytes
    as in Resources, None for a failure; draft_s: the seconds that the draft model predicts, None where it
    predicts none."""

    kind: ClassVar[str] = "trial"
    trial: int
    round: int
    key: str
    trace: list[Any]
    latency_s: float | None
    spread_s: float | None
    build_s: float
    run_s: float
    failure: str | None
    message: str
    elapsed_s: float
    resources: dict[str, int] | None = None
    draft_s: float | None = None


@dataclass(frozen=True)
class Round:
    """The end of a round. seconds: by stage, since the run started. candidates: explored, drafted, verified,
    measured so far."""

    kind: ClassVar[str] = "round"
    round: int
    trials: int
    seconds: dict[str, float]
    candidates: dict[str, int]


@dataclass(frozen=True)
class Confirmation:
    """A finalist timed again at length and compared with the untuned program; overrides its trial."""

    kind: ClassVar[str] = "confirmation"
    trial: int
    latency_s: float | None
    spread_s: float | None
    failure: str | None = None
    message: str = ""


@dataclass(frozen=True)
class End:
    """The run is over. best: its trial, or None. reason: budget, minutes, exhausted, interrupted or error."""

    kind: ClassVar[str] = "end"
    best: int | None
    reason: str


Record = Header | Baseline | Trial | Round | Confirmation | End
_KINDS: dict[str, type[Record]] = {
    record.kind: record for record in (Header, Baseline, Trial, Round, Confirmation, End)
}


@dataclass
class Contents:
    """A journal that was read."""

    header: Header
    baseline: Baseline | None = None
    trials: list[Trial] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    confirmations: list[Confirmation] = field(default_factory=list)
    end: End | None = None

    def confirmed(self) -> list[Trial]:
        """The trials as finally known: a confirmation's latency, spread and failure override the trial's."""
        last = {c.trial: c for c in self.confirmations}
        return [
            trial
            if (c := last.get(trial.trial)) is None
            else replace(
                trial, latency_s=c.latency_s, spread_s=c.spread_s, failure=c.failure, message=c.message
            )
            for trial in self.trials
        ]

    def best(self) -> Trial | None:
        """The trial the run ended on, or while it goes on the fastest one so far."""
        valid = [trial for trial in self.confirmed() if trial.latency_s is not None]
        if self.end is not None:
            return next((trial for trial in valid if trial.trial == self.end.best), None)
        return min(valid, key=lambda trial: trial.latency_s or 0.0, default=None)

    def winner(self) -> int | None:
        """The number of the fastest trial that was confirmed, or while none is, of the fastest one."""
        valid = [trial for trial in self.confirmed() if trial.latency_s is not None]
        stood = {confirmation.trial for confirmation in self.confirmations}
        pool = [trial for trial in valid if trial.trial in stood] or valid
        return min(pool, key=lambda trial: trial.latency_s or 0.0).trial if pool else None

    def add(self, record: Record) -> None:
        """Files a record under its kind."""
        if isinstance(record, Trial):
            self.trials.append(record)
        elif isinstance(record, Round):
            self.rounds.append(record)
        elif isinstance(record, Confirmation):
            self.confirmations.append(record)
        elif isinstance(record, Baseline):
            self.baseline = record
        elif isinstance(record, End):
            self.end = record
        else:
            raise ConfigError(f"A journal has one header; a second one ({record.workload}) follows.")


class Journal:
    """An open journal, for appending."""

    def __init__(self, path: Path, contents: Contents) -> None:
        self.path = path
        self.contents = contents

    @classmethod
    def create(cls, work_dir: str | os.PathLike[str], header: Header) -> Journal:
        """Starts a run's journal; the folder is made. Raises ConfigError when it holds a run already."""
        folder = Path(work_dir)
        check_free(folder, header)
        path = folder / NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # 'x': of two runs that start at once in one folder, the second is refused.
            with path.open("xb") as file:
                _append(file, [header])
        except OSError as error:
            raise ConfigError(
                f"work_dir={work_dir} cannot be used: {error}. Choose another folder."
            ) from error
        return cls(path, Contents(header))

    def append(self, *records: Record) -> None:
        """Adds records in order; they are on the disk when this returns."""
        try:
            with self.path.open("r+b") as file:
                _append(file, records)
        except OSError as error:
            kept = f"It holds {len(self.contents.trials)} trials. " if self.path.exists() else ""
            raise ConfigError(
                f"{self.path} cannot be written: {error.strerror}. {kept}"
                "Make room, or choose another work_dir."
            ) from error
        for record in records:
            self.contents.add(record)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Contents:
        """A journal's records; a last line that was cut short is left out.

        Raises ConfigError when it is no journal, or one that this version cannot read.
        """
        try:
            lines = Path(path).read_bytes().split(b"\n")
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}. Give a run's {NAME}.") from error
        # Without a closing newline the last line was being written when the run died.
        records = [_parse(line, f"{path}, line {i}") for i, line in enumerate(lines[:-1], 1) if line.strip()]
        if not records or not isinstance(records[0], Header):
            raise ConfigError(f"{path} is no journal: it does not start with a header. Give a run's {NAME}.")
        contents = Contents(records[0])
        for record in records[1:]:
            contents.add(record)
        return contents


def check_free(work_dir: str | os.PathLike[str], header: Header | None = None) -> None:
    """Raises ConfigError when the folder cannot take a new run; with the run's header, it says how the run
    that is there differs. Writes nothing."""
    folder = Path(work_dir)
    way_out = "Choose another work_dir, or remove that folder."
    try:
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    except OSError as error:
        raise ConfigError(
            f"work_dir={work_dir} cannot be used: {error.strerror}. Choose another folder."
        ) from error
    if not nearest.is_dir():
        raise ConfigError(f"work_dir={work_dir} cannot be used: {nearest} is a file. Choose a folder.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(
            f"work_dir={work_dir} cannot be used: nothing can be written in {nearest}. Choose another folder."
        )
    if not (folder / NAME).exists():
        databases = sorted(path.name for path in folder.glob("database_*.json")) if folder.exists() else []
        if databases:
            raise ConfigError(
                f"work_dir={work_dir} holds {' and '.join(databases)} of another tool, which a run would "
                f"overwrite. {way_out}"
            )
        return
    try:
        there = Journal.read(folder / NAME)
    except ConfigError as error:
        raise ConfigError(f"work_dir={work_dir} holds no run that can be read: {error} {way_out}") from error
    if header is not None:
        differing = [
            f"{name} there: {_brief(old)}, here: {_brief(header.identity[name])}"
            for name, old in there.header.identity.items()
            if old != header.identity[name]
        ]
        if differing:
            raise ConfigError(
                f"work_dir={work_dir} holds the run of another task, machine or setting "
                f"({'; '.join(differing)}). {way_out}"
            )
    whole = there.end is not None and there.end.reason not in ("interrupted", "error")
    state = "a finished run" if whole else "an unfinished run"
    raise ConfigError(
        f"work_dir={work_dir} already holds {state} of {there.header.workload} "
        f"with {len(there.trials)} trials. {way_out}"
    )


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _append(file: BinaryIO, records: Sequence[Record]) -> None:
    """Writes all of the records or, where the disk is full, none of them."""
    lines = [json.dumps({"kind": record.kind, **asdict(record)}, allow_nan=False) for record in records]
    end = file.seek(0, os.SEEK_END)
    data = memoryview("".join(f"{line}\n" for line in lines).encode())
    descriptor = file.fileno()
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    except BaseException:
        os.ftruncate(descriptor, end)
        raise


def record_of(data: Any, where: str) -> Record:
    """The record that the JSON value of a line is. Raises ConfigError, naming `where`, when it is none, or
    the header of a journal in another format."""
    try:
        values = dict(data)
        kind = _KINDS[values.pop("kind")]
        if kind is Header and values.get("format") != FORMAT:
            raise ConfigError(
                f"{where}: written in format {values.get('format')}, this version reads {FORMAT}. "
                "Read it with the version of pruner that wrote it."
            )
        return kind(**values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _no_record(error, where) from error


def _parse(line: bytes, where: str) -> Record:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise _no_record(error, where) from error
    return record_of(data, where)


def _no_record(error: Exception, where: str) -> ConfigError:
    return ConfigError(f"{where} is not a journal record ({type(error).__name__}: {error}).")
