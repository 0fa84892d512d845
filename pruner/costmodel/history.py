"""What a run has measured, kept as a training set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pruner.costmodel.verifier import TrainingSet
from pruner.errors import RejectedError
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.measure.clock import stage
from pruner.search.materialise import materialise_many

if TYPE_CHECKING:
    from pruner.measure.measurement import Measurement
    from pruner.search.candidate import Candidate


class History:
    """Measurements of one or more tasks with the features a verifier needs, in the order of measuring;
    extracting is billed to `features`."""

    def __init__(self, extractors: Mapping[str, FeatureExtractor]) -> None:
        self._extractors = extractors
        self._features: dict[str, list[FeatureBatch]] = {name: [] for name in extractors}
        self._latencies: list[float] = []
        self._tasks: list[int] = []

    def add(self, measurements: Sequence[Measurement], task: int = 0) -> None:
        """Appends measured candidates of one task, in order. One that TVM refused is no program, so there
        is nothing to learn from it."""
        measurements = [m for m in measurements if m.failure != "build" or _is_program(m.candidate)]
        candidates = [m.candidate for m in measurements if m.candidate is not None]
        with stage("features"):
            batches = {name: extractor.extract(candidates) for name, extractor in self._extractors.items()}
        for batch in batches.values():
            batch.check_finite()
        # Nothing is known until all is: an extractor that fails leaves what there is as it is.
        for name, batch in batches.items():
            self._features[name].append(batch)
        self._latencies += [np.inf if m.latency_s is None else m.latency_s for m in measurements]
        self._tasks += [task] * len(measurements)

    def training_set(self) -> TrainingSet:
        """Everything added so far, a group per task; labels as TrainingSet says."""
        group = np.array(self._tasks, dtype=np.int64)
        return TrainingSet(
            features={name: FeatureBatch.concat(batches) for name, batches in self._features.items()},
            labels=relative(np.array(self._latencies), group),
            group=group,
            order=np.arange(len(group)),
        )


def _is_program(candidate: Candidate | None) -> bool:
    return candidate is not None and not isinstance(materialise_many([candidate])[0], RejectedError)


def relative(latencies: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Labels of latencies, float64[n]: the best one of the same group over each; 0 for a failure, whose
    latency is infinite."""
    labels = np.zeros(len(latencies))
    for task in np.unique(group):
        ran = (group == task) & np.isfinite(latencies)
        labels[ran] = latencies[ran].min(initial=np.inf) / latencies[ran]
    return labels
