"""The networks against NumPy, candidate by candidate."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from pruner.costmodel.networks import TLP, PaCM, TenSetMLP
from pruner.costmodel.rows import Rows
from tests.costmodel.neural_util import WIDTHS, features


def relu(x):
    return np.maximum(x, 0)


class Reference:
    """The layers of a network, in float64, by their names in it."""

    def __init__(self, network):
        self.weights = {name: tensor.double().numpy() for name, tensor in network.state_dict().items()}

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def encoder(self, x, name, layers):
        for i in range(layers):
            x = relu(self.linear(x, f"{name}.{2 * i}"))
        return x

    def attention(self, x, heads):
        """x: `length x width`."""
        name, width = "attention.attention", x.shape[1]
        w, b = self.weights[f"{name}.in_proj_weight"], self.weights[f"{name}.in_proj_bias"]
        q, k, v = np.split(x @ w.T + b, 3, axis=1)
        found = []
        for head in range(heads):
            part = slice(head * width // heads, (head + 1) * width // heads)
            shares = np.exp(q[:, part] @ k[:, part].T / np.sqrt(width / heads))
            found.append(shares / shares.sum(axis=1, keepdims=True) @ v[:, part])
        return x + self.linear(np.concatenate(found, axis=1), f"{name}.out_proj")

    def norm(self, x):
        x = (x - self.weights["norm.running_mean"]) / np.sqrt(self.weights["norm.running_var"] + 1e-5)
        return x * self.weights["norm.weight"] + self.weights["norm.bias"]

    def residuals(self, x):
        for i in range(2):
            x = x + relu(self.linear(x, f"residuals.{i}.layer.0"))
        return x

    def pacm(self, rows):
        parts = []
        if "statement" in rows:
            parts.append(self.encoder(rows["statement"], "statement", 2).sum(axis=0))
        if "dataflow" in rows:
            parts.append(self.attention(self.encoder(rows["dataflow"], "dataflow", 2), 4).sum(axis=0))
        x = self.norm(self.encoder(np.concatenate(parts), "fuse", 1))
        return self.linear(self.residuals(x), "decoder").item()

    def tenset_mlp(self, rows):
        x = self.encoder(rows["statement"], "statement", 2).sum(axis=0)
        return self.linear(self.residuals(x), "decoder").item()

    def tlp(self, rows):
        x = self.residuals(self.attention(self.encoder(rows["primitives"], "primitives", 4), 8))
        return self.linear(self.encoder(x, "decoder.0", 3), "decoder.1").sum()


@pytest.mark.parametrize(
    ("kind", "reference", "branches"),
    [
        (PaCM, Reference.pacm, ("statement", "dataflow")),
        (PaCM, Reference.pacm, ("statement",)),
        (PaCM, Reference.pacm, ("dataflow",)),
        (TenSetMLP, Reference.tenset_mlp, ("statement",)),
        (TLP, Reference.tlp, ("primitives",)),
    ],
)
def test_scores_are_those_of_the_layers_one_by_one(kind, reference, branches):
    torch.manual_seed(0)
    network = kind({name: WIDTHS[name] for name in branches})
    if kind is PaCM:
        network.norm.running_mean.uniform_(-1, 1)
        network.norm.running_var.uniform_(0.5, 2)
    batches = {name: batch for name, batch in features(12)[0].items() if name in branches}
    with torch.no_grad():
        found = network.eval()({name: Rows.of(batch, torch.device("cpu")) for name, batch in batches.items()})
    candidates = [
        {
            name: batch.values[slice(*ends)].astype(np.float64)
            for name, batch, ends in zip(batches, batches.values(), each, strict=True)
        }
        for each in zip(*(pairwise(batch.offsets) for batch in batches.values()), strict=True)
    ]
    expected = [reference(Reference(network), rows) for rows in candidates]
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)
