"""What a verifier sees: ragged rows of numbers that carry their name, version and width."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError
from pruner.search.candidate import Candidate
from pruner.search.population import Population


@dataclass(frozen=True)
class FeatureBatch:
    """Features of n candidates.

    values: `rows x width` float32; candidate i owns rows offsets[i] to offsets[i + 1].
    offsets: int64[n + 1], offsets[0] = 0.
    """

    values: NDArray[np.float32]
    offsets: NDArray[np.int64]
    name: str
    version: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, candidates: NDArray[np.int64]) -> FeatureBatch:
        """The candidates at these positions, in this order."""
        counts = np.diff(self.offsets)[candidates]
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        rows = np.repeat(self.offsets[candidates] - offsets[:-1], counts) + np.arange(offsets[-1])
        return FeatureBatch(self.values[rows], offsets, self.name, self.version)

    def check_finite(self) -> None:
        """Raises ConfigError, naming feature, column and candidate, where a value is NaN or infinite."""
        found = np.argwhere(~np.isfinite(self.values))
        if not len(found):
            return
        row, column = found[0].tolist()
        candidate = int(np.searchsorted(self.offsets, row, side="right")) - 1
        more = f" (and {len(found) - 1} more values)" if len(found) > 1 else ""
        raise ConfigError(
            f"the feature {self.name} is {self.values[row, column]} in column {_named(self.name, column)} "
            f"of candidate {candidate}{more}; a verifier learns from finite numbers alone. Mend the "
            "extractor, or leave the candidate out."
        )

    @staticmethod
    def concat(parts: Sequence[FeatureBatch]) -> FeatureBatch:
        """The candidates of all parts, in order; at least one part, all by one extractor."""
        ends = np.cumsum([0, *(len(part.values) for part in parts)])
        offsets = [part.offsets[1:] + end for part, end in zip(parts, ends, strict=False)]
        return FeatureBatch(
            np.concatenate([part.values for part in parts]),
            np.concatenate([np.zeros(1, dtype=np.int64), *offsets]),
            parts[0].name,
            parts[0].version,
        )


def _named(feature: str, column: int) -> str:
    """The column's name where the feature is one of this package's, and its index."""
    from pruner.features.make import EXTRACTORS  # extractors import this module

    columns = getattr(EXTRACTORS.get(feature), "columns", ())
    return f"{columns[column]} ({column})" if column < len(columns) else str(column)


class FeatureExtractor(ABC):
    """Turns candidates into numbers. `columns` has one line per column, in order; `rows` is how many rows
    every candidate has, None where that depends on the program; `materialised` says that it reads the
    materialised program instead of the decisions; `left_out` names columns that readers may look for and that
    it does not have, each with the reason."""

    name: str
    version: int
    columns: tuple[str, ...]
    rows: int | None = None
    materialised: bool = False
    left_out: Mapping[str, str] = MappingProxyType({})

    @property
    def inputs(self) -> Mapping[str, object] | None:
        """What the numbers depend on besides the candidates, as JSON values: a device's fields, a setting.
        None = not told, so that what it extracts is never kept."""
        return None

    def explain(self, column: str) -> str:
        """What one of the columns holds, in plain words."""
        return column.replace("_", " ")

    @abstractmethod
    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        """Features of the candidates, in order. Raises RejectedError if TVM makes no program of one and
        the extractor needs it."""
