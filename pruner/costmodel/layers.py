"""Pieces that the networks of several papers share."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn


def encoder(*widths: int) -> nn.Sequential:
    """Linear layers of these widths, a ReLU behind each."""
    layers: list[nn.Module] = []
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers)


class Residual(nn.Module):
    """`x + ReLU(W x + b)`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = encoder(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """`n x width` in and out."""
        out: Tensor = x + self.layer(x)
        return out


class Attention(nn.Module):
    """Self-attention over a sequence with a residual; no positions, mask or normalisation."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """`n x length x width` in and out."""
        attended, _ = self.attention(x, x, x, need_weights=False)
        out: Tensor = x + attended
        return out
