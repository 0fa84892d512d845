"""The released weights against a forward pass written out in NumPy."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from pruner.costmodel.released import WIDTHS, load_released
from pruner.costmodel.rows import Rows
from pruner.errors import ConfigError

ROWS = 8


@pytest.fixture
def released():
    folder = os.environ.get("PRUNER_DATA")
    path = Path(folder or "") / "checkpoints" / "pam_k80_1500.pth"
    if not folder or not path.is_file():
        pytest.skip("PRUNER_DATA does not name a folder with checkpoints/pam_k80_1500.pth")
    return path


def inputs(n, rng):
    """Normalised columns lie between 0 and 1, and some candidates have more statements than others."""
    counts = rng.integers(1, 6, n)
    statement = rng.random((counts.sum(), WIDTHS["statement"]), dtype=np.float32)
    dataflow = rng.random((n, ROWS, WIDTHS["dataflow"]), dtype=np.float32)
    return counts, statement, dataflow


def rows(counts, statement, dataflow):
    offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]))
    moved = torch.from_numpy(dataflow.reshape(-1, WIDTHS["dataflow"]))
    return {
        "statement": Rows(torch.from_numpy(statement), offsets),
        "dataflow": Rows(moved, torch.arange(len(counts) + 1) * ROWS),
    }


def relu(x):
    return np.maximum(x, 0)


class Reference:
    """A pass through the released layers, by their released names."""

    def __init__(self, path):
        self.weights = {
            k: v.double().numpy() for k, v in torch.load(path, weights_only=True, map_location="cpu").items()
        }
        self.used = set()

    def __getitem__(self, name):
        self.used.add(name)
        return self.weights[name]

    def linear(self, name, x):
        return x @ self[f"{name}.weight"].T + self[f"{name}.bias"]

    def attention(self, x, heads=4):
        width = x.shape[-1]
        q, k, v = np.split(
            x @ self["attention.in_proj_weight"].T + self["attention.in_proj_bias"], 3, axis=-1
        )
        out = np.empty_like(x)
        for head in range(heads):
            part = slice(head * width // heads, (head + 1) * width // heads)
            weights = np.exp(q[..., part] @ np.swapaxes(k[..., part], -1, -2) / np.sqrt(width / heads))
            out[..., part] = weights / weights.sum(axis=-1, keepdims=True) @ v[..., part]
        return x + self.linear("attention.out_proj", out)

    def __call__(self, counts, statement, dataflow):
        s = relu(self.linear("segment_encoder.2", relu(self.linear("segment_encoder.0", statement))))
        s = np.stack([part.sum(axis=0) for part in np.split(s, np.cumsum(counts)[:-1])])
        d = relu(self.linear("gemm_encoder.2", relu(self.linear("gemm_encoder.0", dataflow))))
        x = relu(self.linear("fuse.0", np.hstack([s, self.attention(d).sum(axis=1)])))
        x = (x - self["norm.running_mean"]) / np.sqrt(self["norm.running_var"] + 1e-5)
        x = x * self["norm.weight"] + self["norm.bias"]
        for layer in ("l0.0", "l1.0"):
            x = x + relu(self.linear(layer, x))
        return self.linear("decoder", x)[:, 0]


def test_the_released_network_scores_as_written_out(released):
    given = inputs(40, np.random.default_rng(0))
    reference = Reference(released)
    expected = reference(*given)
    with torch.no_grad():
        found = load_released(released)(rows(*given)).numpy()
    assert np.abs(found - expected).max() < 1e-5 * max(1, np.abs(expected).max())
    assert np.ptp(expected) > 1e-3
    # The count of batches decides nothing at inference.
    assert reference.used | {"norm.num_batches_tracked"} == reference.weights.keys()


def test_every_released_weight_is_used(released):
    given = torch.load(released, weights_only=True, map_location="cpu")
    ours = load_released(released).state_dict()
    assert len(given) == len(ours) == 25
    assert sum(p.numel() for p in load_released(released).parameters()) == 417_409  # as published


def test_a_file_of_something_else_is_refused(tmp_path):
    for name, content in (("text", b"no weights"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match="holds no weights"):
            load_released(tmp_path / name)
    torch.save([1, 2], tmp_path / "list")
    with pytest.raises(ConfigError, match="holds no weights"):
        load_released(tmp_path / "list")
    torch.save({"decoder.weight": torch.zeros(1, 3)}, tmp_path / "other")
    with pytest.raises(ConfigError, match="of another network: attention"):
        load_released(tmp_path / "other")


def test_nothing_in_a_file_is_executed(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "executed",))

    torch.save({"decoder.weight": Evil()}, tmp_path / "evil")
    with pytest.raises(ConfigError, match="holds no weights"):
        load_released(tmp_path / "evil")
    assert not (tmp_path / "executed").exists()
