"""Losses against sums written out pair by pair."""

import math

import pytest
import torch

from pruner.costmodel.losses import LOSSES, in_lists, loss_of
from pruner.errors import ConfigError

LABELS = [[1.0, 0.3, 0.0, 0.7], [0.5, 1.0]]
SCORES = [[0.2, 0.9, -0.4, 0.1], [1.0, -1.0]]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def lambda_rank(s, y):
    rank = {i: 1 + sum(other > s[i] for other in s) for i in range(len(s))}
    best = sum((2**v - 1) / math.log2(1 + k) for k, v in enumerate(sorted(y, reverse=True), 1))
    total = 0.0
    for i in range(len(s)):
        for j in range(len(s)):
            if y[i] > y[j]:
                w = abs(1 / math.log2(1 + rank[i]) - 1 / math.log2(1 + rank[j]))
                w *= abs((2 ** y[i] - 1) - (2 ** y[j] - 1)) / best
                total -= w * math.log2(sigmoid(s[i] - s[j]))
    return total


def rank_net(s, y):
    terms = [-math.log2(sigmoid(s[i] - s[j])) for i in range(len(s)) for j in range(len(s)) if y[i] > y[j]]
    return sum(terms) / len(terms)


def list_net(s, y):
    p, q = ([math.exp(v) for v in values] for values in (y, s))
    return -sum(a / sum(p) * math.log(b / sum(q)) for a, b in zip(p, q, strict=True))


def padded():
    flat = torch.tensor([v for row in SCORES for v in row], dtype=torch.float64)
    labels = torch.tensor([v for row in LABELS for v in row], dtype=torch.float64)
    lists = torch.tensor([i for i, row in enumerate(SCORES) for _ in row])
    scores, mask = in_lists(flat, lists)
    return scores, in_lists(labels, lists)[0], mask


@pytest.mark.parametrize("brute", [lambda_rank, rank_net, list_net])
def test_a_loss_is_the_mean_over_lists_of_its_sum(brute):
    expected = sum(brute(s, y) for s, y in zip(SCORES, LABELS, strict=True)) / 2
    assert LOSSES[brute.__name__](*padded()).item() == pytest.approx(expected)


def test_squared_differences_count_every_candidate_alike():
    differences = [
        (a - b) ** 2 for s, y in zip(SCORES, LABELS, strict=True) for a, b in zip(s, y, strict=True)
    ]
    assert LOSSES["mse"](*padded()).item() == pytest.approx(sum(differences) / 6)


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_down_the_gradient_lowers_the_loss_and_leaves_padding_alone(name):
    scores, labels, mask = padded()
    scores = scores.clone().requires_grad_()
    before = LOSSES[name](scores, labels, mask)
    before.backward()
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[~mask] == 0).all()
    assert LOSSES[name](scores.detach() - 1e-3 * scores.grad, labels, mask) < before


@pytest.mark.parametrize("name", LOSSES)
def test_equal_labels_and_single_candidates_give_finite_losses(name):
    for labels in ([[0.0, 0.0]], [[1.0, 1.0]], [[1.0]], [[0.0]]):
        scores = torch.zeros(1, len(labels[0]), requires_grad=True)
        loss = LOSSES[name](scores, torch.tensor(labels), torch.ones(1, len(labels[0]), dtype=torch.bool))
        loss.backward()
        assert torch.isfinite(loss)
        assert torch.isfinite(scores.grad).all()


def test_lists_keep_their_order_and_need_not_be_together():
    padded, mask = in_lists(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1, 0, 1, 1]))
    assert padded.tolist() == [[2.0, 0.0, 0.0], [1.0, 3.0, 4.0]]
    assert mask.tolist() == [[True, False, False], [True, True, True]]


def test_an_unknown_loss_is_refused():
    with pytest.raises(ConfigError, match=r"verifier\.loss=hinge is not accepted: give lambda_rank"):
        loss_of("hinge")
