"""What a neural verifier is trained to: losses over lists of candidates of one task.

Each takes scores and labels as `lists x width` matrices, padded, with a mask of the entries that count, and
gives a scalar: the mean over lists. Higher scores and labels are better.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from pruner.errors import ConfigError

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def lambda_rank(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Pairs by how much their exchange would change the list's DCG (LambdaRank, as TenSet, TLP and Pruner
    use it): minus the sum over pairs with y_i > y_j of w_ij log2 sigmoid(s_i - s_j), where w_ij is
    |1/D_i - 1/D_j| |G_i - G_j|, D = log2(1 + rank) of the scores, G = (2^y - 1) / maxDCG."""
    gains = torch.where(mask, torch.exp2(labels) - 1.0, 0.0)
    places = torch.arange(1, scores.shape[1] + 1, device=scores.device, dtype=scores.dtype)
    discounts = 1.0 / torch.log2(1.0 + places)
    best = (gains.sort(dim=1, descending=True).values * discounts).sum(dim=1, keepdim=True)
    gains = gains / best.clamp_min(1e-12)
    order = torch.where(mask, scores.detach(), -torch.inf).argsort(dim=1, descending=True)
    inverse = torch.empty_like(scores).scatter_(1, order, discounts.expand_as(scores))
    weights = (inverse[:, :, None] - inverse[:, None]).abs() * (gains[:, :, None] - gains[:, None]).abs()
    return _pairs(scores, labels, mask, weights)


def rank_net(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """Every pair alike: minus the mean over pairs with y_i > y_j of log2 sigmoid(s_i - s_j) (RankNet)."""
    pairs = _better(labels, mask).sum(dim=(1, 2), keepdim=True).clamp_min(1)
    return _pairs(scores, labels, mask, 1.0 / pairs.to(scores.dtype))


def list_net(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """The cross-entropy of the two top-one distributions (ListNet)."""
    expected = torch.where(mask, labels, -torch.inf).softmax(dim=1)
    found = torch.where(mask, scores, -torch.inf).log_softmax(dim=1)
    return -torch.where(mask, expected * found, 0.0).sum(dim=1).mean()


def mse(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """The mean squared difference, of all lists together."""
    return F.mse_loss(scores[mask], labels[mask])


LOSSES: dict[str, Loss] = {
    "lambda_rank": lambda_rank,
    "rank_net": rank_net,
    "list_net": list_net,
    "mse": mse,
}


def loss_of(name: str) -> Loss:
    """The loss of this name. Raises ConfigError with the names that are accepted."""
    if name not in LOSSES:
        raise ConfigError(f"verifier.loss={name} is not accepted: give {', '.join(LOSSES)}.")
    return LOSSES[name]


def in_lists(values: Tensor, lists: Tensor) -> tuple[Tensor, Tensor]:
    """`lists x width` values, zero where a list is shorter, and the mask. lists: int64[n], the list of each
    value, counted from 0; those of a list keep their order."""
    counts = torch.bincount(lists)
    order = torch.argsort(lists, stable=True)
    starts = torch.cumsum(counts, 0) - counts
    columns = torch.arange(len(lists), device=lists.device) - starts[lists[order]]
    shape = len(counts), int(counts.max()) if len(counts) else 0
    padded = values.new_zeros(shape).index_put((lists[order], columns), values[order])
    mask = torch.zeros(shape, dtype=torch.bool, device=lists.device)
    mask[lists[order], columns] = True
    return padded, mask


def _better(labels: Tensor, mask: Tensor) -> Tensor:
    """`lists x width x width`: whether the first of a pair is the better one."""
    return (labels[:, :, None] > labels[:, None]) & mask[:, :, None] & mask[:, None]


def _pairs(scores: Tensor, labels: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    terms = F.logsigmoid(scores[:, :, None] - scores[:, None]) * weights
    return -torch.where(_better(labels, mask), terms, 0.0).sum(dim=(1, 2)).mean() / torch.log(
        torch.tensor(2.0, device=scores.device)
    )
