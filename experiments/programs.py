"""Tasks of a data set as verifiers are judged on them: distinct programs, failed ones too, with features."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tvm.ir import IRModule

from experiments.judged import distinct, group_of
from pruner.analyzer.device import Device
from pruner.errors import ConfigError, RejectedError
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.placement import seen_by
from pruner.records.dataset import Dataset
from pruner.records.spaces import recorded_rows
from pruner.search.candidate import Candidate
from pruner.search.materialise import materialise_many
from pruner.search.population import Population

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Candidates whose programs are held in memory at a time.
_BATCH = 512

# Makes the extractors of a verifier's features for a device.
MakeExtractors = Callable[[Device], Mapping[str, FeatureExtractor]]


@dataclass(frozen=True, eq=False)
class TaskPrograms:
    """The n distinct programs of a task, in the order of their first records.

    latency_s: float64[n], of a program that was recorded several times the mean; NaN for one that never ran.
    order: int64[n], when it was first measured. features: of the n programs, by name. unusable: records that
    are no row of any space; refused: programs that TVM no longer makes; both are left out. features_s:
    seconds that the features took.
    """

    name: str
    group: str
    weight: float
    mod: IRModule
    latency_s: Floats
    order: Ints
    features: Mapping[str, FeatureBatch]
    unusable: int
    refused: int
    features_s: float

    def __len__(self) -> int:
        return len(self.latency_s)

    def digest(self, features: Sequence[str]) -> str:
        """The same for the same records and the same numbers in these features."""
        return hashlib.sha256(" ".join(self._digests[name] for name in ("", *features)).encode()).hexdigest()

    @cached_property
    def _digests(self) -> dict[str, str]:
        """Of the records, and of each feature by its name."""
        records = hashlib.sha256(f"{self.name} {self.weight}".encode())
        for array in (self.latency_s, self.order):
            records.update(array.tobytes())
        found = {"": records.hexdigest()}
        for name, batch in self.features.items():
            own = hashlib.sha256(f"{batch.name} {batch.version} {batch.values.shape}".encode())
            own.update(batch.values.tobytes())
            own.update(batch.offsets.tobytes())
            found[name] = own.hexdigest()
        return found


def task_programs(records: Dataset, device: Device, extractors: MakeExtractors) -> TaskPrograms | None:
    """The task of a data set with one task; None when none of its programs ran, or TVM refuses them all.

    Only features that read the materialised program find out what TVM no longer makes.
    """
    task = records.tasks[0]
    if not (records.failure == "").any():
        return None
    made = extractors(seen_by(device, task.target, task.id))
    try:
        rows, kept = recorded_rows(records)
    except ConfigError:  # TVM refuses them all
        return None
    start = time.perf_counter()
    first, latency = distinct(rows, records.latency_s[kept])
    accepted, features = _features(rows[first], made)
    latency, order = latency[accepted], records.order[kept][first][accepted]
    if np.isnan(latency).all():
        return None
    return TaskPrograms(
        task.id,
        group_of(task),
        task.weight,
        task.mod,
        latency,
        order,
        features,
        len(records) - len(kept),
        len(first) - len(accepted),
        time.perf_counter() - start,
    )


def _features(
    rows: Population, extractors: Mapping[str, FeatureExtractor]
) -> tuple[Ints, dict[str, FeatureBatch]]:
    """Which rows TVM makes, and their features; of a batch at a time, whose programs are then dropped."""
    accepted: list[Ints] = []
    parts: dict[str, list[FeatureBatch]] = {name: [] for name in extractors}
    for start in range(0, len(rows), _BATCH):
        batch = np.arange(start, min(start + _BATCH, len(rows)))
        candidates = list(rows[batch])
        try:
            found = _extract(candidates, extractors)
        except RejectedError:
            # As extractors do, which need no program that fits the device.
            made = materialise_many(candidates, verify=False)
            whole = [not isinstance(one, RejectedError) for one in made]
            batch = batch[whole]
            candidates = [candidate for candidate, one in zip(candidates, whole, strict=True) if one]
            found = _extract(candidates, extractors)
        accepted.append(batch)
        for name, features in found.items():
            parts[name].append(features)
    return np.concatenate(accepted), {name: FeatureBatch.concat(batches) for name, batches in parts.items()}


def _extract(
    candidates: Sequence[Candidate], extractors: Mapping[str, FeatureExtractor]
) -> dict[str, FeatureBatch]:
    return {name: extractor.extract(candidates) for name, extractor in extractors.items()}
