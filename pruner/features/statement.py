"""TVM's per-store features: one row of 164 numbers per buffer store of the materialised program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from pruner._tvm import tune_context
from pruner.analyzer.device import Device
from pruner.cores import usable_cpus
from pruner.errors import RejectedError
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.features.statement_columns import BUFFERS, CACHE_LINE, INTENSITIES, columns, explained
from pruner.measure.clock import stage
from pruner.search.candidate import Candidate
from pruner.search.materialise import materialise_many
from pruner.search.population import Population


class StatementFeatures(FeatureExtractor):
    """A row per buffer store that is not a constant; counts and sizes are `log2(1 + x)`.

    Args:
        device: its target tells TVM whether thread bindings are features.
        threads: how many programs are extracted at once; by default the cores this process may use.
    """

    name = "statement"
    version = 1
    columns = columns()
    materialised = True

    def __init__(self, *, device: Device, threads: int | None = None) -> None:
        self._threads = threads or len(usable_cpus())
        target = Target(dict(device.target))
        self._kind = str(target.kind.name)
        self._context = tune_context(target, num_threads=self._threads)
        self._extractor = ms.feature_extractor.PerStoreFeature(BUFFERS, INTENSITIES, CACHE_LINE)

    @property
    def inputs(self) -> Mapping[str, object]:
        return {"target": self._kind}

    def explain(self, column: str) -> str:
        return explained(column)

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        """Materialises what is not materialised yet (billed to that stage), then extracts."""
        with stage("materialise"):
            schedules = materialise_many(list(candidates), self._threads, verify=False)
        with stage("features"):
            measurable = []
            for schedule in schedules:
                if isinstance(schedule, RejectedError):
                    raise schedule
                measurable.append(ms.MeasureCandidate(schedule, []))
            tensors = self._extractor.extract_from(self._context, measurable)
            values = [tensor.numpy().astype(np.float32) for tensor in tensors]
            offsets = np.zeros(len(values) + 1, dtype=np.int64)
            np.cumsum([len(rows) for rows in values], out=offsets[1:])
            empty = np.zeros((0, len(self.columns)), dtype=np.float32)
            return FeatureBatch(np.concatenate([empty, *values]), offsets, self.name, self.version)
