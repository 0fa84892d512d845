"""Rules in whole runs, on a made-up device."""

import json
import re

import pytest

from pruner.adapt.finetune import FineTune
from pruner.adapt.gap import GapModel
from pruner.adapt.momentum import Momentum
from pruner.adapt.rule import AdaptationRule, Frozen, Scratch
from pruner.analyzer.device import Device
from pruner.analyzer.draft import NoDraft
from pruner.components import Components
from pruner.costmodel.neural import PaCMVerifier
from pruner.costmodel.random import RandomVerifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import ConfigError
from pruner.measure.compile import CompileMeasurer
from pruner.search.latent import LatentSearch
from pruner.testing.dummy import DummyMeasurer
from tests.run_util import latency


class Swaps(AdaptationRule):
    """Ranks with another verifier than it is given."""

    def __init__(self, other):
        self.other, self.prepared, self.updated = other, [], []

    def prepare(self, verifier):
        self.prepared.append(verifier)
        return self.other

    def update(self, verifier, training_set):
        self.updated.append(verifier)


class Ranks(RandomVerifier):
    asked = 0

    def predict(self, features):
        self.asked += 1
        return super().predict(features)


@pytest.mark.parametrize(
    ("verifier", "adapt"),
    [
        (XGBVerifier, Frozen(checkpoint="xgb-x86-64")),
        (XGBVerifier, FineTune(checkpoint="xgb-x86-64")),
        (XGBVerifier, GapModel(checkpoint="xgb-x86-64")),
        (PaCMVerifier, Momentum(checkpoint="pacm-x86-64", epochs=2)),
    ],
)
def test_a_pretrained_verifier_ranks_from_the_first_round_on(go, tmp_path, verifier, adapt):
    go(verifier=verifier(), adapt=adapt, trials=10)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["candidates"]["verified"] == summary["candidates"]["drafted"] + 2 * 32
    assert not [note for note in summary["notes"] if note.startswith("verifier ")]


def test_the_run_ranks_with_what_prepare_gave(go):
    given, other = XGBVerifier(), Ranks()
    rule = Swaps(other)
    go(verifier=given, adapt=rule)
    assert rule.prepared == [given]
    assert rule.updated == [other, other]
    assert other.asked > 0


def test_a_verifier_that_does_not_suit_ends_a_run_before_anything_is_measured(go, tmp_path):
    measurer = DummyMeasurer(latency=latency, baseline_s=1e-3)
    for adapt, message in (
        (Momentum(checkpoint="xgb-x86-64"), "trees cannot be averaged"),
        (FineTune(), "needs adapt.checkpoint"),
        (Frozen(checkpoint="pacm-x86-64"), "holds pacm; this verifier accepts xgb"),
        (Swaps(None), "adapt Swaps: prepare gave None, a NoneType: return the verifier"),
    ):
        with pytest.raises(ConfigError, match=message):
            go(measurer, adapt=adapt)
        assert measurer.measured == []
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rule", [Frozen, FineTune])
def test_a_checkpoint_from_another_kind_of_device_is_refused(go, tmp_path, rule):
    """Feature shapes agree; what the numbers mean does not."""
    with pytest.raises(ConfigError, match="trained on programs of a gpu, and device x86-64 is a cpu"):
        go(verifier=XGBVerifier(), adapt=rule(checkpoint="xgb-a100"))
    assert not (tmp_path / "run").exists()


def test_where_nothing_is_learnt_no_features_are_extracted_for_it(go, tmp_path):
    """An unfitted verifier is not asked either."""
    seconds = {}
    for rule in (Frozen(), Scratch()):
        result = go(adapt=rule, verifier=XGBVerifier(), trials=10, work_dir=tmp_path / type(rule).__name__)
        seconds[type(rule)] = result.summary.seconds["features"]
    assert seconds[Frozen] == 0 < seconds[Scratch]


@pytest.mark.parametrize(
    ("adapt", "fitted", "said"),
    [
        (Scratch(), False, "adapt=frozen, and the draft's order is the verifier's"),
        (Scratch(), True, "adapt=frozen$"),
        (Momentum(checkpoint="pacm-x86-64"), False, "adapt=frozen adapt.checkpoint=pacm-x86-64$"),
        (Frozen(checkpoint="pacm-x86-64"), False, None),
    ],
)
def test_without_timing_the_checkpoint_is_what_ranks(adapt, fitted, said):
    device = Device.load("a100-40g")
    verifier = RandomVerifier() if fitted else XGBVerifier()
    parts = Components(device, NoDraft(device=device), verifier, LatentSearch(), adapt)
    suited, notes = parts.suited_to(object.__new__(CompileMeasurer))
    assert isinstance(suited.adapt, Frozen)
    assert suited.adapt.checkpoint == adapt.checkpoint
    assert len(notes) == (said is not None)
    if said:
        assert re.search(said, notes[0])
