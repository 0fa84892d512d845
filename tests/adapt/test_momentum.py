"""The Siamese weights against MoCo's rule, written out."""

import copy
import itertools

import numpy as np
import pytest

from pruner.adapt.finetune import FineTune
from pruner.adapt.momentum import Momentum
from pruner.costmodel.neural import PaCMVerifier, TenSetMLPVerifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import ConfigError
from tests.costmodel.neural_util import features, subset, training_set

WHOLE = training_set(100)
BUFFERS = {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}


class Seen(PaCMVerifier):
    """Notes what it is set to before it trains, and what it is afterwards."""

    def __init__(self):
        super().__init__(dataflow=False, epochs=3)
        self.steps = []

    def refine(self, training_set, *, epochs=None):
        start = weights(self)
        super().refine(training_set, epochs=epochs)
        self.steps.append((start, weights(self)))


def weights(verifier):
    return copy.deepcopy(verifier.state_dict()["weights"])


def run(updates, **settings):
    verifier = Seen()
    verifier.fit(subset(WHOLE, np.arange(40)))
    first = weights(verifier)
    rule = Momentum(epochs=2, **settings)
    assert rule.prepare(verifier) is verifier
    for i in range(updates):
        rule.update(verifier, subset(WHOLE, np.arange(10 * (i % 10 + 1))))
    return first, verifier


@pytest.mark.parametrize(("momentum", "buffers"), [(0.99, False), (0.99, True), (0.5, False)])
def test_ten_updates_move_the_copy_as_written_out(momentum, buffers):
    """What the eleventh starts from is `m^10 phi + (1 - m) sum m^(9-i) theta_i`."""
    first, verifier = run(11, momentum=momentum, buffers=buffers)
    assert len(verifier.steps) == 11
    found, trained = verifier.steps[10][0], [after for _, after in verifier.steps[:10]]
    still = BUFFERS if not buffers else {"norm.num_batches_tracked"}
    moved = 0
    for name in first:
        phi = first[name].astype(np.float64)
        expected = momentum**10 * phi + sum(
            (1 - momentum) * momentum ** (9 - i) * theta[name].astype(np.float64)
            for i, theta in enumerate(trained)
        )
        expected = phi if name in still else expected
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-6 * np.abs(phi).max())
        moved += name not in still and not np.allclose(found[name], phi, rtol=1e-5, atol=0)
    assert moved >= len(first) - len(still) - 1


def test_every_update_starts_from_the_copy_and_not_from_the_last_target():
    first, verifier = run(2)
    (start, target), (second, _) = verifier.steps
    for name in first:
        np.testing.assert_array_equal(start[name], first[name])
    name = "decoder.weight"
    assert np.abs(second[name] - first[name]).max() < 0.02 * np.abs(target[name] - first[name]).max()


def test_between_updates_the_last_target_stays_in_use():
    verifier = Seen()
    verifier.fit(subset(WHOLE, np.arange(40)))
    unseen = features(20, 1)[0]
    rule = Momentum(epochs=2, every=4)
    rule.prepare(verifier)
    scores = [verifier.predict(unseen)]
    for _ in range(8):
        rule.update(verifier, WHOLE)
        scores.append(verifier.predict(unseen))
    changed = [not np.array_equal(a, b) for a, b in itertools.pairwise(scores)]
    assert changed == [False, False, False, True] * 2
    assert len(verifier.steps) == 2


def test_at_no_momentum_it_is_fine_tuning():
    verifiers = []
    for rule in (Momentum(momentum=0.0, buffers=True, epochs=2), FineTune(epochs=2)):
        verifier = PaCMVerifier(dataflow=False, epochs=3)
        verifier.fit(subset(WHOLE, np.arange(40)))
        rule.prepare(verifier)
        for known in (60, 80, 100):
            rule.update(verifier, subset(WHOLE, np.arange(known)))
        verifiers.append(verifier)
    unseen = features(20, 1)[0]
    np.testing.assert_allclose(*[verifier.predict(unseen) for verifier in verifiers], rtol=1e-5, atol=1e-5)


def test_a_second_run_begins_anew():
    unseen = features(20, 1)[0]
    rule, found = Momentum(momentum=0.5, epochs=2, every=2), []
    for _ in range(2):
        verifier = Seen()
        verifier.fit(subset(WHOLE, np.arange(40)))
        rule.prepare(verifier)
        for known in (20, 30, 40):
            rule.update(verifier, subset(WHOLE, np.arange(known)))
        found.append(verifier.predict(unseen))
    np.testing.assert_array_equal(*found)


def test_trees_are_refused():
    verifier = XGBVerifier()
    verifier.fit(WHOLE)
    with pytest.raises(ConfigError, match="trees cannot be averaged: choose adapt=finetune"):
        Momentum().prepare(verifier)


@pytest.mark.parametrize(
    "settings",
    [{"momentum": -0.1}, {"momentum": 1.5}, {"momentum": "a"}, {"every": 0}, {"epochs": 0}, {"epochs": 1.5}],
)
def test_settings_are_checked(settings):
    (name,) = settings
    with pytest.raises(ConfigError, match=f"adapt.{name}="):
        Momentum(**settings)


def test_networks_without_batchnorm_have_no_buffers():
    verifier = TenSetMLPVerifier(epochs=1)
    verifier.fit(WHOLE)
    assert verifier.state_dict()["buffers"] == []
    assert set(Seen().state_dict()["buffers"]) == set()
