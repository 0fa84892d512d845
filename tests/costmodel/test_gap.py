"""A gap model is its base, scaled, plus what it has learnt; the numbers are made up."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from pruner.costmodel.gap import GapVerifier
from pruner.costmodel.neural import TenSetMLPVerifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import ConfigError
from tests.costmodel.neural_util import features, training_set


class Line(XGBVerifier):
    """A base with scores of our choice: `factor` times the candidate's first column of the symbols."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = factor

    fitted = True

    def predict(self, given):
        return self.factor * given["symbols"].values[:, 0].astype(np.float64)


def base(**settings):
    made = TenSetMLPVerifier(epochs=3, prior=0.0, **settings)
    made.fit(training_set(60, seed=5))
    return made


def written_out(state, given, names):
    """The gap of a state, in NumPy."""
    rows = []
    for name in names:
        batch = given[name]
        parts = np.split(batch.values.astype(np.float64), batch.offsets[1:-1])
        rows.append(np.stack([part.sum(axis=0) for part in parts]))
    own = state["normaliser"]
    x = ((np.hstack(rows) - own["shift"]) / own["scale"]).clip(-own["limit"], own["limit"])
    weights = {name: array.astype(np.float64) for name, array in state["gap"].items()}
    for layer in ("hidden.0", "hidden.2"):
        x = np.maximum(x @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"], 0)
    return (x @ weights["decoder.weight"].T + weights["decoder.bias"])[:, 0]


def test_it_scores_as_written_out():
    verifier = GapVerifier(base=base(), epochs=20)
    records, unseen = training_set(80, tasks=3), features(30, 1)[0]
    verifier.fit(records)
    slopes = [
        (v - v.mean(), y - y.mean()) for v, y in by_task(verifier.base.predict(records.features), records)
    ]
    scores, labels = (np.concatenate(part) for part in zip(*slopes, strict=True))
    slope = np.linalg.lstsq(scores[:, None], labels, rcond=None)[0][0]
    assert slope > 0
    state = verifier.state_dict()
    assert state["slope"] == pytest.approx(slope)
    gap = written_out(state, unseen, verifier.features)
    assert np.ptp(gap) > 0.01
    np.testing.assert_allclose(
        verifier.predict(unseen), slope * verifier.base.predict(unseen) + gap, rtol=1e-4, atol=1e-5
    )


def by_task(scores, records):
    return [
        (scores[own], records.labels[own]) for own in (records.group == g for g in np.unique(records.group))
    ]


def test_a_base_that_is_wrong_counts_nothing():
    """A negative slope would turn a ranking round."""
    records = training_set(60)
    order = np.argsort(records.labels)
    symbols = records.features["symbols"].values
    symbols[order, 0] = np.arange(60)
    for factor, sign in ((1.0, 1), (-1.0, 0), (0.0, 0)):
        verifier = GapVerifier(base=Line(factor))
        verifier.fit(records)
        assert np.sign(verifier.slope) == sign


def test_it_learns_what_its_base_misses():
    verifier = GapVerifier(base=base())
    records = training_set(120)
    unseen, latency = features(80, 1)
    before = spearmanr(verifier.predict(unseen), -latency).statistic
    verifier.fit(records)
    assert spearmanr(verifier.predict(unseen), -latency).statistic > before + 0.02


def test_the_base_is_never_changed_and_torchs_generator_neither():
    one = base()
    before, drawn = one.state_dict(), torch.random.get_rng_state()
    verifier = GapVerifier(base=one, epochs=5)
    unseen = features(20, 1)[0]
    np.testing.assert_array_equal(verifier.predict(unseen), one.predict(unseen))
    verifier.fit(training_set())
    for name, array in one.state_dict()["weights"].items():
        np.testing.assert_array_equal(array, before["weights"][name])
    assert torch.equal(torch.random.get_rng_state(), drawn)
    one_class = training_set(5)
    one_class.labels[:] = 0.5
    verifier.fit(one_class)  # teaches nothing, so that it is its base again
    np.testing.assert_array_equal(verifier.predict(unseen), one.predict(unseen))


def test_an_unfitted_base_is_refused():
    verifier = GapVerifier(base=XGBVerifier())
    assert not verifier.fitted
    with pytest.raises(ConfigError, match="base of the gap model is unfitted"):
        verifier.fit(training_set())


def test_without_torch_the_need_is_told():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from pruner.adapt.gap import GapModel\n"
        "from pruner.costmodel.xgb import XGBVerifier\n"
        "from pruner.errors import ConfigError\n"
        "try:\n    GapModel(checkpoint='xgb-x86-64').prepare(XGBVerifier())\n"
        "except ConfigError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert "adapt=gap needs PyTorch" in done.stdout, done.stderr
