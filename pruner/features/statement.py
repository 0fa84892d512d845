"""TVM's per-store features: one row of 164 numbers per buffer store of the materialised program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from pruner._tvm import fast_intrinsics
from pruner.analyzer.device import Device
from pruner.cores import usable_cpus
from pruner.errors import RejectedError
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.measure.clock import stage
from pruner.search.candidate import Candidate
from pruner.search.materialise import materialise_many
from pruner.search.population import Population

# TVM's defaults, which its own cost model uses too.
BUFFERS = 5
INTENSITIES = 10
CACHE_LINE = 64

_ARITHMETIC = (
    *(f"float_{op}" for op in ("mad", "add_sub", "mul", "div_mod", "cmp", "math", "other")),
    *(f"int_{op}" for op in ("mad", "add_sub", "mul", "div_mod", "cmp", "math", "other")),
    "bool",
    "select",
)
_POSITIONS = (
    "none",
    "inner_spatial",
    "middle_spatial",
    "outer_spatial",
    "inner_reduce",
    "middle_reduce",
    "outer_reduce",
    "mixed",
)
_THREADS = (
    "is_gpu",
    *(f"blockIdx_{axis}" for axis in "xyz"),
    *(f"threadIdx_{axis}" for axis in "xyz"),
    "vthread",
)
_BUFFER = (
    "is_read",
    "is_write",
    "is_read_write",
    "bytes",
    "unique_bytes",
    "lines",
    "unique_lines",
    "reuse_in_loop",
    "reuse_in_sequence",
    "reuse_none",
    "reuse_distance_iterations",
    "reuse_distance_bytes",
    "reuse_count",
    "bytes_per_reuse",
    "unique_bytes_per_reuse",
    "lines_per_reuse",
    "unique_lines_per_reuse",
    "stride",
)


def _columns() -> tuple[str, ...]:
    """Names in the order in which TVM's `per_store_feature.cc` exports its five groups."""
    loops = (
        f"{kind}_{entry}"
        for kind in ("vectorize", "unroll", "parallel")
        for entry in ("loops", "product", "innermost", *(f"at_{place}" for place in _POSITIONS))
    )
    return (
        *_ARITHMETIC,
        *loops,
        *_THREADS,
        *(f"buffer{i}_{entry}" for i in range(BUFFERS) for entry in _BUFFER),
        *(f"intensity_{i}" for i in range(INTENSITIES)),
        *("alloc_bytes", "alloc_product", "alloc_outer_product", "alloc_inner_product"),
        *("outer_product", "outer_loops", "auto_unroll_max_step"),
    )


class StatementFeatures(FeatureExtractor):
    """A row per buffer store that is not a constant; counts and sizes are `log2(1 + x)`.

    Args:
        device: its target tells TVM whether thread bindings are features.
        threads: how many programs are extracted at once; by default the cores this process may use.
    """

    name = "statement"
    version = 1
    columns = _columns()
    materialised = True

    def __init__(self, *, device: Device, threads: int | None = None) -> None:
        fast_intrinsics()
        self._threads = threads or len(usable_cpus())
        self._context = ms.TuneContext(target=Target(dict(device.target)), num_threads=self._threads)
        self._extractor = ms.feature_extractor.PerStoreFeature(BUFFERS, INTENSITIES, CACHE_LINE)

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        """Materialises what is not materialised yet (billed to that stage), then extracts."""
        with stage("materialise"):
            schedules = materialise_many(list(candidates), self._threads)
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
