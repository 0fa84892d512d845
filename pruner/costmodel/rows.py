"""Ragged feature rows as tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch


@dataclass(frozen=True)
class Rows:
    """The feature rows of n candidates: values `rows x width` float32, offsets int64[n + 1]; candidate i owns
    rows offsets[i] to offsets[i + 1]."""

    values: Tensor
    offsets: Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @staticmethod
    def of(batch: FeatureBatch, device: torch.device) -> Rows:
        """Those of a feature batch, on the device."""
        return Rows(torch.from_numpy(batch.values).to(device), torch.from_numpy(batch.offsets).to(device))

    def take(self, candidates: Tensor) -> Rows:
        """The candidates at these positions, int64[m], in this order."""
        counts = torch.diff(self.offsets)[candidates]
        offsets = torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))
        first = torch.repeat_interleave(self.offsets[candidates] - offsets[:-1], counts)
        return Rows(self.values[first + torch.arange(len(first), device=first.device)], offsets)

    def summed(self, encoded: Tensor) -> Tensor:
        """`n x d`: what the rows `rows x d` of each candidate come to; 0 for one without rows."""
        owner = torch.repeat_interleave(
            torch.arange(len(self), device=encoded.device), torch.diff(self.offsets)
        )
        return encoded.new_zeros(len(self), encoded.shape[1]).index_add(0, owner, encoded)

    def sequences(self, encoded: Tensor) -> Tensor:
        """`n x length x d` of rows `rows x d`. Raises ConfigError unless every candidate has as many rows."""
        counts = torch.diff(self.offsets)
        if len(self) and bool((counts != counts[0]).any()):
            raise ConfigError(
                f"the candidates have from {int(counts.min())} to {int(counts.max())} rows of a feature that "
                "is read as a sequence: give every candidate as many, zeros where there is nothing."
            )
        return encoded.reshape(len(self), len(encoded) // max(1, len(self)), encoded.shape[1])
