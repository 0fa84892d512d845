"""Faulty verifiers: told once, and the run goes on with the draft's order."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import numpy as np
import pytest

from pruner.adapt.rule import AdaptationRule, Frozen, Scratch
from pruner.analyzer.device import Device
from pruner.analyzer.draft import NoDraft
from pruner.costmodel.verifier import Verifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.display import Display
from pruner.errors import ConfigError
from pruner.features.make import make_extractors
from pruner.features.symbols import SymbolFeatures
from pruner.integration.strategy import PrunerStrategy
from pruner.search.latent import LatentSearch
from pruner.testing.dummy import DummyMeasurer
from tests.run_util import latency


class Faulty(Verifier):
    """Fitted from the start; `predict` and `fit` are functions of what they are given."""

    features = ("symbols",)
    fitted = True

    def __init__(self, predict=None, fit=None):
        self._predict = predict or (lambda n: np.arange(n, dtype=float))
        self._fit = fit or (lambda training_set: None)

    def fit(self, training_set):
        self._fit(training_set)

    def predict(self, features):
        return self._predict(len(features["symbols"]))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state) -> None:
        return None


class Notes(Display):
    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)


class Grad:
    def __array__(self, *_, **__):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


def broken(*_):
    raise ZeroDivisionError("of mine")


def mismatch(*_):
    raise ConfigError("fitted on symbols version 1, not on version 2")


@pytest.fixture
def proposed(go, tmp_path):
    """The keys a run measures, its notes about the verifier, which the summary holds too, and its counts."""

    def run(folder, **parts):
        measurer = DummyMeasurer(latency=latency, baseline_s=1e-3)
        notes = Notes()
        go(measurer, display=notes, work_dir=tmp_path / folder, **parts)
        summary = json.loads((tmp_path / folder / "summary.json").read_text())
        assert summary["notes"] == notes.said
        about = [note for note in notes.said if note.startswith("verifier ")]
        return [candidate.key for candidate in measurer.measured], about, summary["candidates"]

    return run


@pytest.mark.parametrize(
    ("predict", "said"),
    [
        (lambda n: np.zeros(n - 1), r"predict gave an array of shape \(\d+,\) for \d+ candidates: .*float64"),
        (lambda n: np.zeros((n, 1)), r"predict gave an array of shape \(\d+, 1\)"),
        (lambda n: None, r"predict gave an array of shape \(\)"),
        (lambda n: [[0.0]] + [[1.0, 2.0]] * (n - 1), "predict gave a list that is no array"),
        (lambda n: np.full(n, np.nan), "predict gave NaN"),
        (lambda n: np.append(np.zeros(n - 1), -np.inf), "predict gave inf.*finite"),
        (lambda n: np.full(n, "x"), "predict gave values of type <U1"),
        (lambda n: Grad(), "predict gave a Grad that is no array .*requires grad"),
        (broken, r"predict raised ZeroDivisionError: of mine \(test_guard.py, line \d+\)"),
    ],
)
def test_scores_that_cannot_be_used_are_told_once_and_the_draft_decides(proposed, predict, said):
    by_draft, none, _ = proposed("draft", verifier=XGBVerifier(), adapt=Frozen())
    assert none == []
    keys, (note,), counts = proposed("faulty", verifier=Faulty(predict))
    assert keys == by_draft
    assert note.startswith("verifier Faulty: predict")
    assert re.search(said, note), note
    assert "draft's order" in note
    assert counts["verified"] == 0


def test_a_usable_verifier_has_another_order(proposed):
    by_draft, _, _ = proposed("draft", verifier=XGBVerifier(), adapt=Frozen())
    keys, notes, counts = proposed("sound", verifier=Faulty())
    assert keys != by_draft
    assert notes == []
    assert counts["verified"] > 0


def test_one_bad_round_is_one_round(proposed):
    calls = []

    def once(n):
        calls.append(n)
        return np.full(n, np.nan) if len(calls) == 2 else np.arange(n, dtype=float)

    sound, _, _ = proposed("sound", verifier=Faulty())
    keys, (note,), _ = proposed("once", verifier=Faulty(once))
    assert "NaN" in note
    assert len(calls) == 3
    assert keys[:5] == sound[:5]
    assert keys[5:10] != sound[5:10]


def test_a_fit_that_fails_loses_no_record(proposed):
    seen = []

    def fit(training_set):
        seen.append(len(training_set))
        if len(seen) == 1:
            raise ValueError("cannot learn")

    keys, (note,), counts = proposed("fit", verifier=Faulty(fit=fit))
    assert len(keys) == 12
    assert note.startswith(
        "verifier Faulty: adapt Scratch on 5 records, 0 of them failed, raised ValueError: cannot learn "
        "(test_guard.py, line "
    )
    assert seen == [5, 10]
    assert counts["verified"] > 0


def test_a_verifier_that_never_says_fitted_is_named(proposed):
    verifier = Faulty()
    verifier.fitted = False
    by_draft, none, _ = proposed("frozen", verifier=verifier, adapt=Frozen())
    assert none == []
    keys, (note,), _ = proposed("unfitted", verifier=verifier)
    assert keys == by_draft
    assert "not `fitted` after learning from 5 records" in note
    assert "self.fitted = True" in note


def test_a_rule_that_fails_is_told_with_its_name(proposed):
    class Careless(AdaptationRule):
        def update(self, verifier, training_set):
            raise KeyError("momentum")

    keys, (note,), _ = proposed("rule", verifier=Faulty(), adapt=Careless())
    assert len(keys) == 12
    assert "adapt Careless on 5 records, 0 of them failed, raised KeyError: 'momentum'" in note


class Broken(SymbolFeatures):
    """Its second batch cannot be extracted."""

    calls = 0

    def extract(self, candidates):
        Broken.calls += 1
        if Broken.calls == 2:
            raise IndexError("no such block")
        return super().extract(candidates)


class Missing(SymbolFeatures):
    def extract(self, candidates):
        batch = super().extract(candidates)
        batch.values[0, 0] = np.nan
        return batch


@pytest.mark.parametrize(
    ("extractor", "said", "seen"),
    [
        (Broken, r"raised IndexError: no such block \(test_guard.py, line \d+\)", [4, 8]),
        (Missing, r"raised ConfigError: the feature symbols is nan in column", []),
    ],
)
def test_features_that_cannot_be_had_end_no_run(proposed, extractor, said, seen):
    fitted = []
    verifier = Faulty(fit=lambda training_set: fitted.append(len(training_set)))
    verifier.features = (f"{__name__}.{extractor.__name__}",)
    verifier.fitted = False
    keys, notes, _ = proposed("features", verifier=verifier, batch=4, trials=16)
    assert len(keys) == 16
    assert any(re.search(f"extracting its features {said}", note) for note in notes), notes
    assert fitted == seen


def test_an_exploration_by_a_verifier_that_fails_is_made_by_the_draft(proposed):
    calls = []

    def later(n):
        calls.append(n)
        return np.full(n, np.nan) if len(calls) % 3 == 0 else -np.arange(n, dtype=float)

    keys, (note,), _ = proposed("fitness", verifier=Faulty(later), search=LatentSearch(fitness="verifier"))
    assert len(set(keys)) == 12
    assert "NaN" in note


def test_a_mismatch_before_anything_is_measured_stops_the_run(proposed, tmp_path):
    with pytest.raises(ConfigError, match="version 1"):
        proposed("early", verifier=Faulty(mismatch))
    assert not (tmp_path / "early").exists()


def test_a_mismatch_later_does_not(proposed):
    calls = []

    def later(n):
        calls.append(n)
        return np.zeros(n) if len(calls) == 1 else mismatch()

    keys, (note,), _ = proposed("late", verifier=Faulty(later))
    assert len(keys) == 12
    assert "ConfigError: fitted on symbols version 1" in note


def test_inside_tvms_tuner_a_fault_is_logged(caplog):
    device = Device.load("x86-64")
    strategy = PrunerStrategy(
        LatentSearch(), draft=NoDraft(device=device), verifier=Faulty(broken), adapt=Scratch()
    )
    with caplog.at_level(logging.WARNING):
        features = {"symbols": make_extractors(("symbols",), device)["symbols"].extract([])}
        assert strategy._shared.verifier.predict(features).shape == (0,)
    assert "ZeroDivisionError" in caplog.text
