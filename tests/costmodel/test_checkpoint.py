"""Checkpoints: what is written comes back, and nothing else is read."""

import json
import pickle
import struct

import numpy as np
import pytest

from pruner.costmodel.checkpoint import load_checkpoint, save_checkpoint
from pruner.costmodel.neural import TenSetMLPVerifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import ConfigError
from tests.costmodel.neural_util import features, training_set

MADE = {"tasks": ["a", "b"], "metrics": {"top1": 0.5}}


@pytest.mark.parametrize("make", [lambda: TenSetMLPVerifier(epochs=1), XGBVerifier])
def test_a_verifier_scores_as_before(tmp_path, make):
    verifier = make()
    verifier.fit(training_set())
    save_checkpoint(tmp_path / "a.safetensors", verifier.state_dict(), MADE)
    state, made = load_checkpoint(tmp_path / "a.safetensors")
    assert made == MADE
    copy = make()
    copy.load_state_dict(state)
    unseen = features(30, 1)[0]
    assert (copy.predict(unseen) == verifier.predict(unseen)).all()


def test_the_header_is_json_in_a_safetensors_file(tmp_path):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"model": "x", "w": np.arange(3, dtype=np.float32)}, MADE)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert json.loads(header["__metadata__"]["pruner"])["made"] == MADE
    assert header["/w"]["dtype"] == "F32"
    assert content[8 + length :] == np.arange(3, dtype=np.float32).tobytes()


def test_arrays_keep_their_shapes(tmp_path):
    path = tmp_path / "a.safetensors"
    arrays = {
        "number": np.array(3, dtype=np.int64),
        "none": np.zeros((0, 2)),
        "turned": np.arange(6.0).reshape(2, 3).T,
    }
    save_checkpoint(path, arrays, {})
    state, _ = load_checkpoint(path)
    for name, array in arrays.items():
        assert (state[name].shape, state[name].dtype) == (array.shape, array.dtype)
        assert (state[name] == array).all()


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"model": "x", "w": np.arange(30, dtype=np.float32)}, MADE)
    content = path.read_bytes()
    for length in (0, 1, 7, 8, 50, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ConfigError, match="is no checkpoint any more: it is cut short"):
            load_checkpoint(path)


class Trap:
    def __reduce__(self):
        return pytest.fail, ("a checkpoint was unpickled",)


def test_a_pickle_is_refused_and_not_loaded(tmp_path):
    path = tmp_path / "a.pkl"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ConfigError, match="is no checkpoint: give a"):
        load_checkpoint(path)


def test_files_of_others_are_refused(tmp_path):
    from safetensors.numpy import save_file

    path = tmp_path / "a.safetensors"
    with pytest.raises(ConfigError, match="is no checkpoint"):
        load_checkpoint(path)
    save_file({"w": np.zeros(3)}, path)
    with pytest.raises(ConfigError, match="is no checkpoint of this tool"):
        load_checkpoint(path)
    for header in ({"format": 99}, {"format": 1, "state": {"w": {"tensor": "/v"}}, "made": {}}, [1]):
        save_file({"/w": np.zeros(3)}, path, {"pruner": json.dumps(header)})
        with pytest.raises(ConfigError, match=r"has format 99|is no checkpoint of this tool"):
            load_checkpoint(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "", "null", "[]"])
def test_a_header_that_is_none_is_refused(tmp_path, text):
    from safetensors.numpy import save_file

    path = tmp_path / "a.safetensors"
    save_file({"w": np.zeros(3)}, path, {"pruner": text})
    with pytest.raises(ConfigError, match="is no checkpoint of this tool"):
        load_checkpoint(path)


@pytest.mark.parametrize(("kind", "size"), [("F8_E4M3", 1), ("F8_E5M2", 1)])
def test_a_type_that_numpy_has_not_is_refused(tmp_path, kind, size):
    path = tmp_path / "a.safetensors"
    header = json.dumps({"w": {"dtype": kind, "shape": [8], "data_offsets": [0, 8 * size]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8 * size))
    with pytest.raises(ConfigError, match="is no checkpoint of this tool"):
        load_checkpoint(path)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"a/b": np.zeros(1), "a": {"b": np.ones(1)}},
            "state has the keys a/b, a: accepted are texts without",
        ),
        ({"w": {"tensor": "model"}}, "state/w has the keys tensor"),
        ({"w": {3: 1.0}}, "state/w has the keys 3"),
        ({"w": [{"x": object()}]}, "state/w/0/x is a object: accepted are JSON values"),
        ({"w": np.array(["text"])}, "state/w is a ndarray"),
        ({"w": 1j}, "state/w is a complex"),
    ],
)
def test_a_state_that_a_file_would_change_is_refused(tmp_path, state, message):
    with pytest.raises(ConfigError, match=message):
        save_checkpoint(tmp_path / "a.safetensors", state, MADE)
    assert not list(tmp_path.iterdir())


def test_a_state_is_a_dict(tmp_path):
    with pytest.raises(ConfigError, match="the state is a list: `state_dict` must give a dict"):
        save_checkpoint(tmp_path / "a.safetensors", [1], {})


def test_arrays_in_lists_come_back(tmp_path):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"layers": [{"w": np.arange(3)}, {"w": np.ones((2, 2))}], "sizes": (1, 2)}, MADE)
    state, _ = load_checkpoint(path)
    assert [layer["w"].tolist() for layer in state["layers"]] == [[0, 1, 2], [[1, 1], [1, 1]]]
    assert state["sizes"] == [1, 2]


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"model": "x"}, MADE)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="state/prior is nan: accepted are finite numbers"):
        save_checkpoint(path, {"model": "x", "prior": float("nan")}, MADE)
    assert path.read_bytes() == before
    with pytest.raises(ConfigError, match="cannot be written"):
        save_checkpoint(tmp_path / "nowhere" / "a.safetensors", {"model": "x"}, MADE)
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
