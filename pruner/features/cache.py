"""Features that are kept on disk, by the content that they depend on."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.features.rows import by_sketch, chosen
from pruner.files import draft_of, one_writer
from pruner.measure.clock import billed, charge, stage
from pruner.records.database import plain
from pruner.search.candidate import Candidate
from pruner.search.population import Population
from pruner.workload import Task

_log = logging.getLogger(__name__)

# The stages that extracting is billed to, which a kept feature charges again.
_STAGES = ("materialise", "features")
_KEY_BYTES = 16
# Raised when an extractor of the same version gives other numbers for some programs, as after a mended fault.
_REVISION = 2


class CachedExtractor(FeatureExtractor):
    """An extractor whose features are kept in a folder: one file for each task, target, feature version and
    whatever else the extractor's `inputs` say that the numbers depend on.

    Of the candidates asked for, those that are in the file are read and the others are extracted in one call
    and added. A candidate that is read charges the clock the seconds that extracting it first cost, an equal
    share of its call, so that a run costs the same with the cache and without. Several processes may use one
    folder: each adds to what the others have added. A file that cannot be read is logged as a warning and
    made again. Candidates that do not tell their task are extracted every time.

    Args:
        extractor: whose features are kept.
        folder: made if it is not there.

    Raises ConfigError for an extractor without `inputs`, and for a folder that cannot be used.
    """

    def __init__(self, extractor: FeatureExtractor, folder: str | os.PathLike[str]) -> None:
        if extractor.inputs is None:
            raise ConfigError(
                f"the feature {extractor.name} does not tell what its numbers depend on, so that they cannot "
                f"be kept: give {type(extractor).__name__} the property `inputs`, or use it without a cache."
            )
        self._extractor = extractor
        self._folder = Path(folder)
        self.name = extractor.name
        self.version = extractor.version
        self.columns = extractor.columns
        self.rows = extractor.rows
        self.materialised = extractor.materialised
        self.left_out = extractor.left_out

    @property
    def inputs(self) -> Mapping[str, object] | None:
        return self._extractor.inputs

    def explain(self, column: str) -> str:
        return self._extractor.explain(column)

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        if not len(candidates):
            return self._extractor.extract(candidates)
        parts, order = [], []
        with stage("features"):
            for task, positions in _by_task(candidates):
                members = chosen(candidates, positions)
                parts.append(
                    self._extractor.extract(members) if task is None else self._of_task(task, members)
                )
                order.append(positions)
        return FeatureBatch.concat(parts).take(np.argsort(np.concatenate(order), kind="stable"))

    def _of_task(self, task: Task, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        header = self._header(task)
        path = self._path(header)
        keys = _keys(candidates)
        kept = self._read(path, header)
        missing = {key: i for i, key in reversed([*enumerate(keys)]) if key not in kept.places}
        for name, seconds in zip(
            _STAGES, kept.cost([key for key in keys if key not in missing]), strict=True
        ):
            charge(name, seconds)
        if missing:
            positions = np.array(sorted(missing.values()), dtype=np.int64)
            fresh = self._extracted([keys[i] for i in positions], chosen(candidates, positions))
            self._add(path, header, fresh)
            kept = kept.with_those_of(fresh)
        return kept.batch.take(np.array([kept.places[key] for key in keys], dtype=np.int64))

    def _extracted(self, keys: list[bytes], candidates: Population | Sequence[Candidate]) -> _Entries:
        with billed() as spent, stage("features"):
            batch = self._extractor.extract(candidates)
        share = np.array([spent[name] for name in _STAGES]) / len(keys)
        return _Entries(keys, batch, np.tile(share, (len(keys), 1)))

    def _header(self, task: Task) -> str:
        """All that the numbers of the task's candidates depend on, but their decisions."""
        kind = type(self._extractor)
        return json.dumps(
            {
                "feature": [self.name, self.version, f"{kind.__module__}.{kind.__qualname__}"],
                "revision": _REVISION,
                "columns": self.columns,
                "inputs": self.inputs,
                "tvm": tvm.__version__,
                "task": _content(task),
            },
            sort_keys=True,
        )

    def _path(self, header: str) -> Path:
        name = re.sub(r"\W", "_", self.name)
        return self._folder / f"{name}-{self.version}-{_digest(header.encode()).hex()}.npz"

    def _read(self, path: Path, header: str) -> _Entries:
        empty = FeatureBatch(
            np.zeros((0, len(self.columns)), np.float32), np.zeros(1, np.int64), self.name, self.version
        )
        if path.is_file():
            try:
                return _Entries.load(path, header, empty)
            except Exception as error:  # NumPy and zipfile have many kinds for what is no file of theirs
                _log.warning("%s holds no features (%s); they are extracted again.", path, error)
        return _Entries([], empty, np.zeros((0, len(_STAGES))))

    def _add(self, path: Path, header: str, fresh: _Entries) -> None:
        """Writes what the file has by now and the fresh entries."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with one_writer(path):
                self._read(path, header).with_those_of(fresh).save(path, header)
        except OSError as error:
            raise ConfigError(
                f"features cannot be kept in {self._folder} ({error.strerror or error}): choose another "
                "folder."
            ) from error


@dataclass(frozen=True, eq=False)
class _Entries:
    """n kept candidates. seconds: `n x 2`, what each first cost, by stage."""

    keys: list[bytes]
    batch: FeatureBatch
    seconds: NDArray[np.float64]

    @cached_property
    def places(self) -> dict[bytes, int]:
        return {key: i for i, key in enumerate(self.keys)}

    def cost(self, keys: Sequence[bytes]) -> list[float]:
        """Seconds by stage of the candidates with these keys."""
        places = self.places
        chosen: list[float] = self.seconds[[places[key] for key in keys]].sum(axis=0).tolist()
        return chosen

    def with_those_of(self, others: _Entries) -> _Entries:
        """Both; a key that is here already is not taken again."""
        known = set(self.keys)
        new = np.array([i for i, key in enumerate(others.keys) if key not in known], dtype=np.int64)
        return _Entries(
            [*self.keys, *(others.keys[i] for i in new)],
            FeatureBatch.concat([self.batch, others.batch.take(new)]),
            np.concatenate([self.seconds, others.seconds[new]]),
        )

    def save(self, path: Path, header: str) -> None:
        with draft_of(path) as draft, draft.open("wb") as file:
            np.savez(
                file,
                header=np.frombuffer(header.encode(), dtype=np.uint8),
                keys=np.frombuffer(b"".join(self.keys), dtype=np.uint8),
                values=self.batch.values,
                offsets=self.batch.offsets,
                seconds=self.seconds,
            )
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def load(cls, path: Path, header: str, empty: FeatureBatch) -> _Entries:
        """What `save` wrote. empty: a batch of the feature. Raises for anything else."""
        with np.load(path, allow_pickle=False) as file:
            found, keys, values, offsets, seconds = (
                file[name] for name in ("header", "keys", "values", "offsets", "seconds")
            )
        n = len(offsets) - 1
        sound = (
            offsets.ndim == 1
            and n >= 0
            and found.dtype == keys.dtype == np.uint8
            and found.tobytes() == header.encode()
            and (values.dtype, offsets.dtype, seconds.dtype) == (np.float32, np.int64, np.float64)
            and keys.shape == (n * _KEY_BYTES,)
            and seconds.shape == (n, len(_STAGES))
            and values.shape == (offsets[-1], empty.values.shape[1])
            and offsets[0] == 0
            and bool((np.diff(offsets) >= 0).all())
        )
        if not sound:
            raise ValueError("its arrays are those of another file")
        text = keys.tobytes()
        split = [text[i : i + _KEY_BYTES] for i in range(0, len(text), _KEY_BYTES)]
        return cls(split, FeatureBatch(values, offsets, empty.name, empty.version), seconds)


def _by_task(
    candidates: Population | Sequence[Candidate],
) -> Iterator[tuple[Task | None, NDArray[np.int64]]]:
    """The tasks and the positions of their candidates."""
    if isinstance(candidates, Population):
        yield candidates.space.task, np.arange(len(candidates))
        return
    groups: dict[int, tuple[Task | None, list[int]]] = {}
    for position, candidate in enumerate(candidates):
        groups.setdefault(id(candidate.task), (candidate.task, []))[1].append(position)
    for task, positions in groups.values():
        yield task, np.array(positions, dtype=np.int64)


def _keys(candidates: Population | Sequence[Candidate]) -> list[bytes]:
    """A key for each candidate: of its sketch and its decisions."""
    keys = [b""] * len(candidates)
    for positions, sketch, decisions in by_sketch(candidates):
        signature = _digest(sketch.signature.encode())
        for position, row in zip(positions, decisions[:, : sketch.width], strict=True):
            keys[position] = _digest(signature + row.astype("<i8").tobytes())
    return keys


@lru_cache(maxsize=64)
def _content(task: Task) -> str:
    """A digest of the program, the names of its blocks included, and the target."""
    target: Any = plain(task.target.export())
    text = json.dumps([task.mod.script(), target], sort_keys=True)
    return _digest(text.encode()).hex()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_KEY_BYTES).digest()
