"""The statement features with ten columns that tell what the task computes, as the released models read them.

The release looks for nine words in the text of Ansor's compute graph, `name(axes) = expression` for every
stage. Today's tasks have blocks instead of stages, so the same text is written from the module: a block's
name, its spatial axes without the `v_` that TVM puts before their names, and what it stores. The tenth column
is 0, as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tvm.ir import IRModule
from tvm.tirx import BufferStore

from pruner.analyzer.device import Device
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.features.statement import StatementFeatures
from pruner.search.candidate import Candidate
from pruner.search.population import Population
from pruner.statements import statements

# Column by word.
TAGS = {
    "tag_max": "max",
    "tag_min": "min",
    "tag_add": "add",
    "tag_conv2d_output": "Conv2dOutput",
    "tag_conv2d_winograd": "conv2d_winograd",
    "tag_depthwise": "DepthwiseConv2d",
    "tag_dense": "dense",
    "tag_softmax": "softmax",
    "tag_batch_matmul": "compute(b, i, j)",
}
_UNUSED = "tag_unused"
_SPATIAL = 0  # IterVar::kDataPar


class TaggedStatementFeatures(FeatureExtractor):
    """The 164 columns of `statement`, then the ten tags of the task, the same in each row of a candidate.

    Args:
        device, threads: as of StatementFeatures.
    """

    name = "statement_tagged"
    version = 1
    columns = (*StatementFeatures.columns, *TAGS, _UNUSED)
    materialised = True

    def __init__(self, *, device: Device, threads: int | None = None) -> None:
        self._statement = StatementFeatures(device=device, threads=threads)

    @property
    def inputs(self) -> Mapping[str, object]:
        return {**self._statement.inputs, "statement": StatementFeatures.version}

    def explain(self, column: str) -> str:
        if column == _UNUSED:
            return "always 0, as in the released models"
        if column in TAGS:
            return f"1 where the names and expressions of the task's blocks contain {TAGS[column]!r}"
        return self._statement.explain(column)

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        """As StatementFeatures. Raises ConfigError for a candidate that does not tell its task."""
        candidates = list(candidates)
        table = np.array([_tags_of(candidate) for candidate in candidates], dtype=np.float32)
        batch = self._statement.extract(candidates)
        rows = np.repeat(table.reshape(-1, len(TAGS) + 1), np.diff(batch.offsets), axis=0)
        values = np.hstack([batch.values, rows])
        return FeatureBatch(values, batch.offsets, self.name, self.version)


def _tags_of(candidate: Candidate) -> NDArray[np.float32]:
    if candidate.task is None:
        raise ConfigError(
            f"the feature {TaggedStatementFeatures.name} needs to know what a candidate computes, and a "
            f"{type(candidate).__name__} has no `task`: set it, or use the feature statement."
        )
    return workload_tags(candidate.task.mod)


@lru_cache(maxsize=64)
def workload_tags(mod: IRModule) -> NDArray[np.float32]:
    """float32[10], the columns of TAGS and a 0, of a task's unscheduled module."""
    text = compute_text(mod)
    return np.array([*(word in text for word in TAGS.values()), 0], dtype=np.float32)


def compute_text(mod: IRModule) -> str:
    """A line `name(axes) = expression` for each store of a block of `main`, in order; a reduction's is what
    it adds, not what it begins with."""
    lines = []
    for store, block in statements(mod["main"].body):
        if block is None or not isinstance(store, BufferStore):
            continue
        axes = (str(axis.var.name) for axis in block.iter_vars if axis.iter_type == _SPATIAL)
        listed = ", ".join(axis.removeprefix("v_") for axis in axes)
        lines.append(f"{block.name_hint}({listed}) = {store.value}")
    return "\n".join(lines)
