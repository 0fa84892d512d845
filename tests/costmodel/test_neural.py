"""What neural verifiers learn, keep and refuse; the numbers are made up."""

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from pruner.costmodel.neural import PaCMVerifier, TenSetMLPVerifier, TLPVerifier
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch
from tests.costmodel.neural_util import features, subset, training_set

MODELS = {
    "pacm": PaCMVerifier,
    "pacm without statement": lambda **s: PaCMVerifier(statement=False, **s),
    "pacm without dataflow": lambda **s: PaCMVerifier(dataflow=False, **s),
    "pacm on programs": lambda **s: PaCMVerifier(form="reference", **s),
    "tenset_mlp": TenSetMLPVerifier,
    "tlp": TLPVerifier,
}


@pytest.fixture(params=MODELS)
def make(request):
    return MODELS[request.param]


def ranks(verifier, seed=1):
    """Spearman's correlation of scores and speeds of candidates that it has not seen."""
    unseen, latency = features(80, seed)
    return spearmanr(verifier.predict(unseen), -latency)[0]


def test_training_lifts_the_ranking_of_unseen_candidates(make):
    verifier = make(prior=0.0)
    verifier.fit(training_set(200))
    assert ranks(verifier) > 0.7


@pytest.mark.parametrize("loss", ["rank_net", "list_net", "mse"])
def test_every_loss_trains(loss):
    verifier = TenSetMLPVerifier(loss=loss, prior=0.0)
    verifier.fit(training_set(200))
    assert ranks(verifier) > 0.7


@pytest.mark.slow
def test_lists_of_several_tasks_and_mixed_lists_train(make):
    for mixed in (False, True):
        verifier = make(mixed=mixed, prior=0.0)
        verifier.fit(training_set(200, tasks=5))
        assert ranks(verifier) > 0.5


def test_the_prior_is_what_an_ignorant_network_adds_to():
    """Labels that say nothing new leave the order to the predicted seconds."""
    learned = training_set(20)
    verifier = TenSetMLPVerifier(prior=1000.0, epochs=1)
    verifier.fit(learned)
    unseen, _ = features(30, 1)
    seconds = unseen["symbols"].values[:, 0]
    assert spearmanr(verifier.predict(unseen), -seconds)[0] > 0.99


def test_one_candidate_scores_as_among_many(make):
    """At inference nothing depends on the batch: normalisation uses what training saw."""
    verifier = make(epochs=2)
    verifier.fit(training_set())
    many, _ = features(1500, 1)
    all_at_once = verifier.predict(many)
    for position in (0, 1023, 1024, 1499):
        alone = {name: batch.take(np.array([position])) for name, batch in many.items()}
        assert verifier.predict(alone) == pytest.approx(all_at_once[[position]], rel=1e-4, abs=1e-4)
    none = {name: batch.take(np.array([], dtype=np.int64)) for name, batch in many.items()}
    assert verifier.predict(none).shape == (0,)


@pytest.mark.parametrize(
    "empty",
    [[], [3], [58, 59]],
    ids=["no record", "one record", "failures alone"],
)
def test_records_that_tell_nothing_leave_it_unfitted(make, empty):
    verifier = make()
    verifier.fit(training_set())
    assert verifier.fitted
    verifier.fit(subset(training_set(failed=2), empty))
    assert not verifier.fitted
    assert (verifier.predict(features(5)[0]) == 0).all()


def test_two_records_are_enough_to_learn_from(make):
    verifier = make(epochs=1)
    verifier.fit(subset(training_set(), [0, 1]))
    assert np.isfinite(verifier.predict(features(5)[0])).all()


def test_failures_count_as_slowest(make):
    """Half of the candidates failed: those with large first columns, by a threshold."""
    whole = training_set(200)
    labels = np.where(whole.labels < np.median(whole.labels), 0.0, 1.0)
    verifier = make(prior=0.0)
    verifier.fit(replace(whole, labels=labels))
    unseen, latency = features(80, 1)
    scores = verifier.predict(unseen)
    slow = latency > np.median(latency)
    assert np.median(scores[~slow]) > np.median(scores[slow])


def test_a_fit_is_repeatable_and_leaves_torchs_generator_alone(make):
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    scores = []
    for seed in (0, 0, 1):
        verifier = make(seed=seed, epochs=3)
        verifier.fit(training_set())
        scores.append(verifier.predict(features(20, 1)[0]))
        torch.rand(1)
    assert (scores[0] == scores[1]).all()
    assert (scores[0] != scores[2]).any()
    torch.random.set_rng_state(before)
    first = make(seed=0, epochs=3)
    first.fit(training_set())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_another_process_fits_the_same():
    code = (
        "import hashlib, sys\n"
        "from pruner.costmodel.neural import PaCMVerifier\n"
        "from tests.costmodel.neural_util import features, training_set\n"
        "v = PaCMVerifier(seed=3, epochs=3); v.fit(training_set())\n"
        "print(hashlib.sha256(v.predict(features(20, 1)[0]).tobytes()).hexdigest())\n"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    verifier = PaCMVerifier(seed=3, epochs=3)
    verifier.fit(training_set())
    here = hashlib.sha256(verifier.predict(features(20, 1)[0]).tobytes()).hexdigest()
    assert run.stdout.split()[-1] == here


def test_a_state_scores_alike_in_another_verifier(make):
    verifier = make(epochs=2)
    verifier.fit(training_set())
    copy = make()
    copy.load_state_dict(verifier.state_dict())
    unseen = features(30, 1)[0]
    assert (copy.predict(unseen) == verifier.predict(unseen)).all()
    blank = make()
    blank.load_state_dict(make().state_dict())
    assert not blank.fitted


def test_states_of_others_are_refused():
    mlp = TenSetMLPVerifier(epochs=1)
    mlp.fit(training_set())
    with pytest.raises(ConfigError, match="holds tenset_mlp; this verifier accepts pacm"):
        PaCMVerifier().load_state_dict(mlp.state_dict())
    with pytest.raises(ConfigError, match=r"prior 4\.0, this verifier"):
        TenSetMLPVerifier(prior=0.0).load_state_dict(mlp.state_dict())
    pacm = PaCMVerifier(epochs=1)
    pacm.fit(training_set())
    with pytest.raises(ConfigError, match="sees statement_fast, dataflow, symbols"):
        PaCMVerifier(statement=False).load_state_dict(pacm.state_dict())
    state = mlp.state_dict()
    state["weights"]["decoder.weight"] = state["weights"]["decoder.weight"][:, :5]
    with pytest.raises(ConfigError, match=r"decoder\.weight has the shape \(1, 5\), needed is \(1, 256\)"):
        TenSetMLPVerifier().load_state_dict(state)


def test_other_features_than_it_was_fitted_on_are_refused(make):
    verifier = make(epochs=1)
    verifier.fit(training_set())
    unseen = features(4)[0]
    name = verifier.features[0]
    batch = unseen[name]
    for other in (
        replace(batch, version=batch.version + 1),
        FeatureBatch(batch.values[:, 1:], batch.offsets, name, batch.version),
    ):
        with pytest.raises(ConfigError, match=f"was fitted on {name} version"):
            verifier.predict({**unseen, name: other})


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"loss": "hinge"}, "verifier.loss=hinge"),
        ({"loss": "mse"}, "verifier.prior=0"),
        ({"normaliser": "none"}, "verifier.normaliser=none"),
        ({"prior": -1.0}, "verifier.prior=-1"),
        ({"epochs": 0}, "epochs=0"),
        ({"visits": 0}, "visits=0"),
        ({"rate": 0.0}, "rate=0"),
        ({"device": "tpu"}, "verifier.device=tpu"),
        ({"threads": 0}, "verifier.threads=0"),
        ({"threads": 10**9}, "verifier.threads=1000000000 is not accepted: give at most"),
    ],
)
def test_settings_are_checked_when_it_is_made(settings, named):
    with pytest.raises(ConfigError) as error:
        TenSetMLPVerifier(**settings)
    assert named in str(error.value)


def test_a_seed_of_any_size_will_do():
    verifier = TenSetMLPVerifier(seed=10**20, epochs=1)
    verifier.fit(training_set())
    assert verifier.fitted


@pytest.mark.skipif(torch.cuda.is_available(), reason="PyTorch has a CUDA device here")
def test_cuda_without_a_device_is_refused():
    with pytest.raises(ConfigError, match="finds no CUDA device"):
        TenSetMLPVerifier(device="cuda")


def test_pacm_needs_a_branch_and_a_known_form():
    with pytest.raises(ConfigError, match="needs one of its branches"):
        PaCMVerifier(statement=False, dataflow=False)
    with pytest.raises(ConfigError, match=r"verifier\.form=other"):
        PaCMVerifier(form="other")
    assert PaCMVerifier(form="code", prior=0.0).features == ("statement_tagged", "dataflow_code")
    assert PaCMVerifier(form="reference", prior=0.0).features == ("statement", "dataflow")
    assert PaCMVerifier(prior=0.0).features == ("statement_fast", "dataflow")


def test_tensets_network_reads_statements_of_both_kinds():
    assert TenSetMLPVerifier(form="reference", prior=0.0).features == ("statement",)
    assert TenSetMLPVerifier(prior=0.0).features == ("statement_fast",)
    with pytest.raises(ConfigError, match=r"verifier\.form=code is not accepted: give paper or reference"):
        TenSetMLPVerifier(form="code")


def test_without_pytorch_the_extra_is_named():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from pruner.config import compose, instantiate\n"
        "from pruner.errors import ConfigError\n"
        "instantiate(compose(['workload=GMM/0', 'verifier=xgb']).verifier)\n"
        "try: instantiate(compose(['workload=GMM/0', 'verifier=pacm']).verifier)\n"
        "except ConfigError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'pruner-tvm[neural]'" in run.stdout


def test_refining_starts_from_the_weights_and_lowers_the_loss(make):
    records = training_set(80)
    verifier = make(prior=0.0, epochs=1)
    verifier.fit(records)
    first, before = verifier.trained.loss, verifier.state_dict()
    drawn = torch.random.get_rng_state()
    verifier.refine(records, epochs=20)
    assert verifier.trained.epochs == 20
    assert verifier.trained.loss < first
    assert torch.equal(torch.random.get_rng_state(), drawn)
    after = verifier.state_dict()
    for name, own in before["normalisers"].items():
        for part, array in own.items():
            np.testing.assert_array_equal(array, after["normalisers"][name][part])
    again = make(prior=0.0, epochs=1)
    again.load_state_dict(before)
    again.refine(records, epochs=20)
    unseen = features(20, 1)[0]
    np.testing.assert_array_equal(again.predict(unseen), verifier.predict(unseen))


@pytest.mark.parametrize("tasks", [[0, 0], [0, 0, 1], [0, 0, 1, 2, 3], [0, 0, 0, 0, 1, 1]])
def test_refining_bears_the_first_round_of_a_run(make, tasks):
    """Two candidates are the least that tell anything; a task with one is no list."""
    verifier = make(epochs=1)
    verifier.fit(training_set(60))
    few = replace(training_set(len(tasks)), group=np.array(tasks))
    for _ in range(3):
        verifier.refine(few, epochs=20)
    assert np.isfinite(verifier.predict(features(20, 1)[0])).all()
    state = verifier.state_dict()
    for name in state["buffers"]:
        assert np.isfinite(state["weights"][name]).all()


def test_refining_refuses_other_features_and_failing_leaves_what_there_is():
    verifier = TenSetMLPVerifier(epochs=1, prior=0.0)
    verifier.fit(training_set(60))
    unseen = features(20, 1)[0]
    before = verifier.predict(unseen)
    records = training_set(20)
    batch = records.features["statement_fast"]
    for other in (replace(batch, version=99), replace(batch, values=batch.values[:, 1:])):
        with pytest.raises(ConfigError, match="was fitted on statement_fast"):
            verifier.refine(replace(records, features={**records.features, "statement_fast": other}))
    np.testing.assert_array_equal(verifier.predict(unseen), before)
    rash = TenSetMLPVerifier(epochs=3, prior=0.0, rate=1e30)
    rash.load_state_dict(verifier.state_dict())
    with pytest.raises(ConfigError, match="not finite in any"):
        rash.refine(training_set(80))
    np.testing.assert_array_equal(rash.predict(unseen), before)
