"""A verifier from its checkpoint alone; files that do not fit are refused, each by what is wrong with it."""

import numpy as np
import pytest

from pruner.costmodel.checkpoint import save_checkpoint
from pruner.costmodel.neural import PaCMVerifier, TenSetMLPVerifier, TLPVerifier
from pruner.costmodel.pretrained import load_into, load_verifier
from pruner.costmodel.random import RandomVerifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import ConfigError
from tests.costmodel.neural_util import features, training_set

MODELS = [
    (PaCMVerifier, {"dataflow": False, "prior": 0.0, "normaliser": "maximum"}),
    (PaCMVerifier, {"loss": "rank_net"}),
    (TenSetMLPVerifier, {"mixed": True}),
    (TenSetMLPVerifier, {"form": "reference"}),
    (TLPVerifier, {}),
    (XGBVerifier, {"features": "statement", "prior": 1.5, "objective": "rank:ndcg"}),
]


def saved(path, kind=XGBVerifier, settings=None, *, made=None, changed=None):
    """A checkpoint of a fitted verifier, with parts of its state replaced; and the verifier."""
    settings = settings or {}
    verifier = kind(**settings, **({} if kind is XGBVerifier else {"epochs": 1}))
    verifier.fit(training_set())
    made = {"verifier": settings} if made is None else made
    save_checkpoint(path, {**verifier.state_dict(), **(changed or {})}, made)
    return verifier


@pytest.mark.parametrize(("kind", "settings"), MODELS)
def test_it_scores_as_the_one_that_was_saved(tmp_path, kind, settings):
    path = tmp_path / "a.safetensors"
    verifier = saved(path, kind, settings)
    found, made = load_verifier(path)
    assert type(found) is kind
    assert found.features == verifier.features
    assert made == {"verifier": settings}
    unseen = features(30, 1)[0]
    assert np.ptp(found.predict(unseen)) > 0
    assert (found.predict(unseen) == verifier.predict(unseen)).all()


def test_weights_in_half_precision_do(tmp_path):
    path = tmp_path / "a.safetensors"
    verifier = saved(path, TenSetMLPVerifier)
    state = verifier.state_dict()
    half = {name: array.astype(np.float16) for name, array in state["weights"].items()}
    save_checkpoint(path, {**state, "weights": half}, {"verifier": {}})
    unseen = features(30, 1)[0]
    scores = load_verifier(path)[0].predict(unseen)
    assert scores == pytest.approx(verifier.predict(unseen), abs=0.02)
    assert (scores != verifier.predict(unseen)).any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"_target_": "os.system", "command": "true"}, "settings are not those of xgb"),
        ({"deep": 3}, "settings are not those of xgb"),
        ({"depth": {"_target_": "os.getcwd"}}, "depth="),
        ({"depth": "deep"}, "depth=deep is not accepted"),
        ({"prior": 2.0}, "prior 4.0, this verifier symbols and 2.0"),
        (None, "has no settings of the verifier"),
    ],
)
def test_settings_of_another_model_are_refused(tmp_path, settings, message):
    path = tmp_path / "a.safetensors"
    saved(path, made={} if settings is None else {"verifier": settings})
    with pytest.raises(ConfigError, match=f"a.safetensors: .*{message}"):
        load_verifier(path)


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        (XGBVerifier, {"model": "pacm"}, "has features symbols|the state is none of a pacm"),
        (XGBVerifier, {"model": "mine.Verifier"}, "holds mine.Verifier; pacm, tenset_mlp"),
        (XGBVerifier, {"model": None}, "holds no known model"),
        (XGBVerifier, {"trees": np.arange(9, dtype=np.uint8)}, "the checkpoint.s trees cannot be read"),
        (XGBVerifier, {"columns": np.array([3, 9999])}, "see column 9999"),
        (XGBVerifier, {"seen": [["symbols", 1, 96]]}, "fitted on symbols version 1 of 96 columns; this rel"),
        (TenSetMLPVerifier, {"seen": [["statement_fast", 1, 9], ["symbols", 3, 96]]}, "has the shape"),
        (TenSetMLPVerifier, {"weights": {"a": np.zeros(3)}}, "a has the shape"),
        (TenSetMLPVerifier, {"normalisers": {}}, "normaliser of statement_fast has nothing"),
        (
            TenSetMLPVerifier,
            {"normalisers": {"statement_fast": {"shift": np.zeros(3), "scale": np.ones(3), "limit": 4.0}}},
            r"normaliser of statement_fast has shift, scale, limit, of the shapes \[\(3,\)",
        ),
        (
            TenSetMLPVerifier,
            {"normalisers": {"statement_fast": {"shift": np.zeros(159), "scale": np.ones(159)}}},
            r"normaliser of statement_fast has shift, scale, .*needed are shift and scale .* and a lim",
        ),
        (TenSetMLPVerifier, {"features": ["symbols"]}, "the checkpoint sees symbols"),
        (TenSetMLPVerifier, {"settings": {}}, "the state is none of a tenset_mlp"),
        (XGBVerifier, {"features": []}, "the state is none of a xgb"),
        (XGBVerifier, {"columns": 10**30}, "the state is none of a xgb"),
        (XGBVerifier, {"trees": -1}, "the state is none of a xgb"),
        (XGBVerifier, {"seen": {}, "columns": [], "trees": []}, "the state is none of a xgb"),
        (TenSetMLPVerifier, {"seen": [["statement_fast", 1, -5]]}, "the state is none of a tenset_mlp"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(tmp_path, kind, changed, message):
    path = tmp_path / "a.safetensors"
    saved(path, kind, changed=changed)
    with pytest.raises(ConfigError, match=f"a.safetensors: .*({message})"):
        load_verifier(path)


@pytest.mark.parametrize("kind", [PaCMVerifier, TenSetMLPVerifier])
def test_what_was_fitted_on_the_statements_of_programs_is_refused(tmp_path, kind):
    """As by releases in which that was the paper's form, whose headers say `paper` or nothing."""
    path = tmp_path / "a.safetensors"
    verifier = saved(path, kind, {"form": "reference"}, made={"verifier": {}})
    message = r"a\.safetensors: .* sees statement, .*verifier statement_fast, .*make it again"
    with pytest.raises(ConfigError, match=message):
        load_verifier(path)
    save_checkpoint(path, verifier.state_dict(), {"verifier": {"form": "reference"}})
    assert load_verifier(path)[0].features == verifier.features


def test_a_file_that_was_cut_short_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    saved(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ConfigError, match=r"a.safetensors is no checkpoint"):
        load_verifier(path)


def test_a_model_that_learns_nothing_has_no_checkpoint(tmp_path):
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"model": RandomVerifier().state_dict()["model"]}, {"verifier": {}})
    with pytest.raises(ConfigError, match="holds random"):
        load_verifier(path)


def test_a_file_does_not_say_how_it_is_run(tmp_path):
    path, resume = tmp_path / "a.safetensors", tmp_path / "state"
    run = {"threads": 10**9, "device": "tpu", "resume": str(resume), "fit_seconds": -1.0}
    verifier = saved(path, TenSetMLPVerifier, made={"verifier": run})
    unseen = features(30, 1)[0]
    assert (load_verifier(path)[0].predict(unseen) == verifier.predict(unseen)).all()


@pytest.mark.parametrize(("kind", "settings"), MODELS)
def test_a_state_is_loaded_into_a_verifier_with_settings_of_its_own(tmp_path, kind, settings):
    path = tmp_path / "a.safetensors"
    verifier = saved(path, kind, settings)
    own = {"trees": 3} if kind is XGBVerifier else {"epochs": 2, "rate": 1e-5}
    found = kind(**settings, **own)
    load_into(found, str(path))
    unseen = features(30, 1)[0]
    assert (found.predict(unseen) == verifier.predict(unseen)).all()


@pytest.mark.parametrize(
    ("verifier", "changed", "message"),
    [
        (TLPVerifier(), {}, "holds tenset_mlp; this verifier accepts tlp"),
        (TenSetMLPVerifier(prior=1.0), {}, "with prior 4.0, this verifier .* with prior 1.0"),
        (TenSetMLPVerifier(form="reference"), {}, "sees statement_fast, .*, this verifier statement,"),
        (TenSetMLPVerifier(), {"seen": [["statement_fast", 0, 159], ["symbols", 3, 96]]}, "version 0 of 159"),
        (TenSetMLPVerifier(), {"settings": {}}, "the state is none of a tenset_mlp"),
    ],
)
def test_what_does_not_suit_a_verifier_is_not_loaded_into_it(tmp_path, verifier, changed, message):
    path = tmp_path / "a.safetensors"
    saved(path, TenSetMLPVerifier, changed=changed)
    with pytest.raises(ConfigError, match=f"a.safetensors: .*{message}"):
        load_into(verifier, path)


def test_a_state_without_the_list_of_buffers_loads(tmp_path):
    """As of releases that did not write it."""
    verifier = PaCMVerifier(epochs=1)
    verifier.fit(training_set())
    state = verifier.state_dict()
    assert state.pop("buffers") == ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    save_checkpoint(tmp_path / "a.safetensors", state, {})
    found = PaCMVerifier()
    load_into(found, tmp_path / "a.safetensors")
    assert found.state_dict()["buffers"] == verifier.state_dict()["buffers"]
