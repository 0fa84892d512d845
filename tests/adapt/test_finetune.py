"""Rules that start from a checkpoint: what they load, refuse and learn."""

import itertools

import numpy as np
import pytest
from scipy.stats import spearmanr

from pruner.adapt.finetune import FineTune
from pruner.adapt.gap import GapModel
from pruner.adapt.momentum import Momentum
from pruner.adapt.rule import Frozen
from pruner.costmodel.checkpoint import save_checkpoint
from pruner.costmodel.gap import GapVerifier
from pruner.costmodel.neural import PaCMVerifier, TenSetMLPVerifier
from pruner.costmodel.random import RandomVerifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import ConfigError
from tests.costmodel.neural_util import features, subset, training_set

STARTING = {"finetune": FineTune, "momentum": Momentum, "gap": GapModel}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Of a network that has seen little, without a prior that would know more."""
    verifier = TenSetMLPVerifier(prior=0.0, epochs=5)
    verifier.fit(training_set(30, seed=3))
    path = tmp_path_factory.mktemp("checkpoints") / "a.safetensors"
    save_checkpoint(path, verifier.state_dict(), {})
    return path, verifier


def network(**settings):
    return TenSetMLPVerifier(**{"prior": 0.0, **settings})


@pytest.mark.parametrize("rule", [Frozen, *STARTING.values()])
def test_a_run_starts_from_the_checkpoint(checkpoint, rule):
    path, trained = checkpoint
    unseen = features(30, 1)[0]
    verifier = rule(checkpoint=str(path)).prepare(network())
    assert verifier.fitted
    np.testing.assert_array_equal(verifier.predict(unseen), trained.predict(unseen))


@pytest.mark.parametrize("name", STARTING)
def test_an_unfitted_verifier_is_refused(tmp_path, name):
    message = f"adapt={name} needs adapt.checkpoint=NAME.PATH of a pre-trained .*shipped are .*pacm-x86-64"
    with pytest.raises(ConfigError, match=message):
        STARTING[name]().prepare(network())
    save_checkpoint(tmp_path / "a.safetensors", network().state_dict(), {})
    with pytest.raises(ConfigError, match=f"adapt={name} needs .*a.safetensors was never fitted"):
        STARTING[name](checkpoint=str(tmp_path / "a.safetensors")).prepare(network())


@pytest.mark.parametrize("rule", [Frozen, *STARTING.values()])
def test_what_does_not_suit_is_refused(checkpoint, rule):
    path = str(checkpoint[0])
    for verifier, message in (
        (PaCMVerifier(), "a.safetensors: the checkpoint holds tenset_mlp; this verifier accepts pacm"),
        (network(form="reference"), "a.safetensors: the checkpoint sees statement_fast"),
        (network(prior=2.0), "a.safetensors: the checkpoint sees .* with prior 0.0, this .* prior 2.0"),
    ):
        with pytest.raises(ConfigError, match=message):
            rule(checkpoint=path).prepare(verifier)
    with pytest.raises(ConfigError, match="there is no checkpoint nothing"):
        rule(checkpoint="nothing").prepare(network())


@pytest.mark.parametrize("rule", [FineTune, Momentum])
def test_a_verifier_without_refine_is_refused_before_the_first_round(rule):
    with pytest.raises(ConfigError, match="RandomVerifier cannot be fine-tuned: it has no `refine`"):
        rule().prepare(RandomVerifier())


def test_fine_tuning_ranks_better_than_what_it_started_from(checkpoint):
    unseen, latency = features(100, 1)
    rule = FineTune(checkpoint=str(checkpoint[0]))
    verifier = rule.prepare(network())
    before = spearmanr(verifier.predict(unseen), -latency).statistic
    rule.update(verifier, training_set(100))
    after = spearmanr(verifier.predict(unseen), -latency).statistic
    assert before < 0.95
    assert after > before + 0.02


def test_a_small_step_stays_close_to_the_checkpoint(checkpoint):
    unseen = features(100, 1)[0]
    rule = FineTune(checkpoint=str(checkpoint[0]), epochs=1)
    verifier = rule.prepare(network(rate=1e-7))
    before = verifier.predict(unseen)
    rule.update(verifier, training_set(100))
    after = verifier.predict(unseen)
    assert (after != before).any()
    assert np.abs(after - before).max() < 1e-3 * np.ptp(before)


def test_only_every_so_many_updates_train(checkpoint):
    unseen = features(20, 1)[0]
    rule = FineTune(checkpoint=str(checkpoint[0]), epochs=1, every=3)
    verifier = rule.prepare(network())
    scores = [verifier.predict(unseen)]
    for _ in range(6):
        rule.update(verifier, training_set(40))
        scores.append(verifier.predict(unseen))
    changed = [not np.array_equal(a, b) for a, b in itertools.pairwise(scores)]
    assert changed == [False, False, True] * 2


def test_trees_go_on_boosting():
    whole, unseen = training_set(100), features(20, 1)[0]
    verifier = XGBVerifier(trees=20)
    verifier.fit(subset(whole, np.arange(40)))
    before = verifier.predict(unseen)
    rule = FineTune(epochs=7)
    rule.prepare(verifier).refine(subset(whole, np.arange(1)), epochs=7)  # nothing to learn
    np.testing.assert_array_equal(verifier.predict(unseen), before)
    for grown in (27, 34):
        rule.update(verifier, whole)
        state = verifier.state_dict()
        assert bytes(state["trees"]).count(b'"split_conditions"') == grown
    assert (verifier.predict(unseen) != before).any()
    again = XGBVerifier(trees=20)
    again.load_state_dict(state)
    np.testing.assert_array_equal(again.predict(unseen), verifier.predict(unseen))


def test_a_gap_is_learnt_at_every_update(checkpoint):
    path, trained = checkpoint
    unseen = features(30, 1)[0]
    rule = GapModel(checkpoint=str(path), epochs=5)
    verifier = rule.prepare(network())
    assert isinstance(verifier, GapVerifier)
    found = []
    for known in (20, 60):
        rule.update(verifier, training_set(known))
        found.append(verifier.gap(unseen))
        np.testing.assert_array_equal(verifier.base.predict(unseen), trained.predict(unseen))
    assert (found[0] != found[1]).any()
