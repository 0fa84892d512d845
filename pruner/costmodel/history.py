"""What a run has measured, kept as a training set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pruner.costmodel.verifier import TrainingSet
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.measure.clock import stage

if TYPE_CHECKING:
    from pruner.measure.measurement import Measurement


class History:
    """One task's measurements with the features a verifier needs; extracting is billed to `features`."""

    def __init__(self, extractors: Sequence[FeatureExtractor]) -> None:
        self._extractors = extractors
        self._features: dict[str, list[FeatureBatch]] = {extractor.name: [] for extractor in extractors}
        self._latencies: list[float] = []

    def add(self, measurements: Sequence[Measurement]) -> None:
        """Appends measured candidates, in order."""
        candidates = [m.candidate for m in measurements if m.candidate is not None]
        with stage("features"):
            for extractor in self._extractors:
                self._features[extractor.name].append(extractor.extract(candidates))
        self._latencies += [np.inf if m.latency_s is None else m.latency_s for m in measurements]

    def training_set(self) -> TrainingSet:
        """Everything added so far; labels as TrainingSet says."""
        latencies = np.array(self._latencies)
        best = latencies.min(initial=np.inf)
        labels = best / latencies if np.isfinite(best) else np.zeros(len(latencies))
        return TrainingSet(
            features={name: FeatureBatch.concat(batches) for name, batches in self._features.items()},
            labels=labels,
            group=np.zeros(len(latencies), dtype=np.int64),
            order=np.arange(len(latencies)),
        )
