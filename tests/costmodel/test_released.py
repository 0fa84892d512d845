"""The released weights against a forward pass written out in NumPy."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from pruner.costmodel.checkpoint import save_checkpoint
from pruner.costmodel.neural import PaCMVerifier
from pruner.costmodel.pretrained import load_into
from pruner.costmodel.released import WIDTHS, load_released
from pruner.costmodel.rows import Rows
from pruner.costmodel.verifier import TrainingSet
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch
from pruner.features.dataflow import DataflowCodeFeatures
from pruner.features.statement_tagged import TaggedStatementFeatures

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

    def __call__(self, counts, statement, dataflow, at_hand=False):
        """at_hand: normalised by these candidates' own mean and variance, which is what training does."""
        s = relu(self.linear("segment_encoder.2", relu(self.linear("segment_encoder.0", statement))))
        s = np.stack([part.sum(axis=0) for part in np.split(s, np.cumsum(counts)[:-1])])
        d = relu(self.linear("gemm_encoder.2", relu(self.linear("gemm_encoder.0", dataflow))))
        x = relu(self.linear("fuse.0", np.hstack([s, self.attention(d).sum(axis=1)])))
        mean, variance = self["norm.running_mean"], self["norm.running_var"]
        if at_hand:
            mean, variance = x.mean(axis=0), x.var(axis=0)
        x = (x - mean) / np.sqrt(variance + 1e-5)
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


def code(**settings):
    return PaCMVerifier(**{"form": "code", "prior": 0.0, "normaliser": "maximum", **settings})


def batches(n, seed):
    """Features whose columns are of any size."""
    counts, statement, dataflow = inputs(n, np.random.default_rng(seed))
    statement *= np.arange(WIDTHS["statement"], dtype=np.float32)
    versions = {one.name: one.version for one in (TaggedStatementFeatures, DataflowCodeFeatures)}
    made = {
        "statement_tagged": (statement, np.concatenate([[0], np.cumsum(counts)])),
        "dataflow_code": (7 * dataflow.reshape(-1, WIDTHS["dataflow"]), np.arange(n + 1) * ROWS),
    }
    return {name: FeatureBatch(*own, name, versions[name]) for name, own in made.items()}


def test_a_verifier_with_the_released_weights_normalises_by_the_candidates_at_hand(released):
    verifier = code()
    load_into(verifier, released)
    assert verifier.fitted
    reference = Reference(released)
    for seed in (1, 2):
        given = batches(30, seed)
        statement, dataflow = given["statement_tagged"], given["dataflow_code"]
        most = statement.values.max(axis=0)
        expected = reference(
            np.diff(statement.offsets),
            statement.values / np.where(most > 0, most, 1),
            (dataflow.values / dataflow.values.max(axis=0)).reshape(30, ROWS, -1),
            at_hand=True,
        )
        before = verifier.state_dict()["weights"]
        np.testing.assert_allclose(verifier.predict(given), expected, rtol=1e-4, atol=1e-4)
        after = verifier.state_dict()["weights"]  # to score is not to learn
        assert all((after[name] == before[name]).all() for name in before)


def test_refined_it_divides_by_the_maxima_of_all_records_so_far(released, tmp_path):
    verifier = code(epochs=2)
    load_into(verifier, released)
    given, unseen = batches(30, 1), batches(20, 2)
    labels = np.random.default_rng(0).random(30)
    before = verifier.predict(unseen)
    for records in (given, batches(30, 3)):
        verifier.refine(TrainingSet(records, labels, np.zeros(30, dtype=np.int64), np.arange(30)))
        most = verifier.state_dict()["normalisers"]["statement_tagged"]["scale"]
        expected = records["statement_tagged"].values.max(axis=0)
        np.testing.assert_array_equal(most, np.where(expected > 0, expected, 1))
    assert (verifier.predict(unseen) != before).any()
    # The columns' maxima stay; BatchNorm goes by the company, of which there are two copies here.
    twice = {name: batch.take(np.tile(np.arange(20), 2)) for name, batch in unseen.items()}
    np.testing.assert_allclose(verifier.predict(twice)[:20], verifier.predict(unseen), rtol=1e-4, atol=1e-4)


def test_the_released_weights_can_be_saved_as_a_checkpoint(released, tmp_path):
    verifier, again = code(), code()
    load_into(verifier, released)
    save_checkpoint(tmp_path / "a.safetensors", verifier.state_dict(), {})
    load_into(again, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(again.predict(batches(9, 1)), verifier.predict(batches(9, 1)))


@pytest.mark.parametrize(
    ("verifier", "message"),
    [
        (XGBVerifier(), "holds pacm; this verifier accepts xgb"),
        (PaCMVerifier(), "sees statement_tagged, dataflow_code with prior 0.0, this verifier statement_fast"),
        (PaCMVerifier(form="code", normaliser="maximum"), "this verifier .* with prior 4.0"),
        (PaCMVerifier(form="code", prior=0.0), "normaliser is standard: give verifier.normaliser=maximum"),
    ],
)
def test_the_released_weights_suit_the_codes_form_alone(released, verifier, message):
    with pytest.raises(ConfigError, match=f"pam_k80_1500.pth: .*{message}"):
        load_into(verifier, released)
