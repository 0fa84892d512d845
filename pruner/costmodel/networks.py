"""The networks of the neural verifiers: PaCM, TenSet's MLP, TLP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pruner.costmodel.layers import Attention, Residual, encoder
from pruner.costmodel.rows import Rows

HIDDEN = 256


class Network(nn.Module, ABC):
    """Scores candidates by their normalised feature rows; higher is better."""

    @abstractmethod
    def forward(self, rows: Mapping[str, Rows]) -> Tensor:
        """float32[n] scores. rows: by the branch that reads them."""


class PaCM(Network):
    """Pruner's pattern-aware cost model (section 5, figure 4): a sum over statements and attention over the
    block movements of the tiling pattern, joined, normalised over the batch, two residual layers.

    Args:
        widths: columns by branch, of `statement` and `dataflow` those that the model has.
        heads: of the attention.
    """

    moved = 128

    def __init__(self, widths: Mapping[str, int], heads: int = 4) -> None:
        super().__init__()
        joined = 0
        self.statement: nn.Module | None = None
        self.dataflow: nn.Module | None = None
        if "statement" in widths:
            self.statement = encoder(widths["statement"], HIDDEN, HIDDEN)
            joined += HIDDEN
        if "dataflow" in widths:
            self.dataflow = encoder(widths["dataflow"], self.moved // 2, self.moved)
            self.attention = Attention(self.moved, heads)
            joined += self.moved
        self.fuse = encoder(joined, HIDDEN)
        self.norm = nn.BatchNorm1d(HIDDEN)
        self.residuals = nn.Sequential(Residual(HIDDEN), Residual(HIDDEN))
        self.decoder = nn.Linear(HIDDEN, 1)

    def forward(self, rows: Mapping[str, Rows]) -> Tensor:
        found = []
        if self.statement is not None:
            own = rows["statement"]
            found.append(own.summed(self.statement(own.values)))
        if self.dataflow is not None:
            own = rows["dataflow"]
            found.append(self.attention(own.sequences(self.dataflow(own.values))).sum(dim=1))
        x = self.norm(self.fuse(torch.cat(found, dim=1)))
        scores: Tensor = self.decoder(self.residuals(x)).squeeze(1)
        return scores


class TenSetMLP(Network):
    """TenSet's segment-sum MLP: an encoder for every statement, their sum, two residual layers."""

    def __init__(self, widths: Mapping[str, int]) -> None:
        super().__init__()
        self.statement = encoder(widths["statement"], HIDDEN, HIDDEN)
        self.residuals = nn.Sequential(Residual(HIDDEN), Residual(HIDDEN))
        self.decoder = nn.Linear(HIDDEN, 1)

    def forward(self, rows: Mapping[str, Rows]) -> Tensor:
        own = rows["statement"]
        scores: Tensor = self.decoder(self.residuals(own.summed(self.statement(own.values)))).squeeze(1)
        return scores


class TLP(Network):
    """TLP: attention over the schedule's primitives, a score for each, their sum (TLP, figure 7)."""

    def __init__(self, widths: Mapping[str, int], heads: int = 8) -> None:
        super().__init__()
        self.primitives = encoder(widths["primitives"], 64, 128, 256, HIDDEN)
        self.attention = Attention(HIDDEN, heads)
        self.residuals = nn.Sequential(Residual(HIDDEN), Residual(HIDDEN))
        self.decoder = nn.Sequential(encoder(HIDDEN, 256, 128, 64), nn.Linear(64, 1))

    def forward(self, rows: Mapping[str, Rows]) -> Tensor:
        own = rows["primitives"]
        x = self.attention(own.sequences(self.primitives(own.values)))
        scores: Tensor = self.decoder(self.residuals(x)).squeeze(2).sum(dim=1)
        return scores
