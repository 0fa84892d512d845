"""What every adaptation rule must do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pruner.adapt.rule import AdaptationRule
from pruner.analyzer.device import Device
from pruner.costmodel.guard import verifier_scores
from pruner.costmodel.verifier import TrainingSet, Verifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch
from pruner.testing import tiny
from pruner.testing.suite import Suite, unchanged

Make = Callable[[], AdaptationRule]
MakeVerifier = Callable[[], Verifier]


def _prepared(rule: AdaptationRule, make_verifier: MakeVerifier, device: Device) -> Verifier:
    """What a run would update. A rule that refuses an unfitted verifier is given a fitted one."""
    try:
        return rule.prepare(make_verifier())
    except ConfigError:
        return rule.prepare(tiny.taught(make_verifier(), device))


def _rounds(make: Make, make_verifier: MakeVerifier, device: Device) -> NDArray[np.float64]:
    """A verifier's scores after three rounds."""
    rule = make()
    verifier = _prepared(rule, make_verifier, device)
    records = tiny.training_set(device, verifier.features)
    for known in (20, 40, len(records)):
        rule.update(verifier, tiny.selected(records, np.arange(known)))
    unseen = tiny.unseen(device, verifier.features)
    return verifier_scores(verifier.predict(unseen), 20, verifier)


class Watched(Verifier):
    """Notes what is done to it, and bears nothing else."""

    features = ("symbols",)

    def __init__(self, inner: Verifier) -> None:
        vars(self).update(inner=inner, calls=[])

    def __setattr__(self, name: str, value: object) -> None:
        pytest.fail(
            f"the rule sets verifier.{name}: a verifier changes through `fit`, `refine` and "
            "`load_state_dict` only"
        )

    @property
    def fitted(self) -> bool:  # type: ignore[override]  # the inner one's
        return bool(vars(self)["inner"].fitted)

    def fit(self, training_set: TrainingSet) -> None:
        vars(self)["calls"].append(training_set)
        vars(self)["inner"].fit(training_set)

    def refine(self, training_set: TrainingSet, *, epochs: int | None = None) -> None:
        vars(self)["calls"].append(training_set)
        vars(self)["inner"].refine(training_set, epochs=epochs)

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = vars(self)["inner"].predict(features)
        return scores

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = vars(self)["inner"].state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        vars(self)["inner"].load_state_dict(state)


class AdaptationSuite(Suite):
    """`make()` gives an AdaptationRule; `make_verifier()`, which may be overridden too, an unfitted verifier
    that it adapts, by default one of boosted trees."""

    @pytest.fixture
    def rule(self, make: Make) -> AdaptationRule:
        return make()

    @pytest.fixture
    def make_verifier(self) -> MakeVerifier:
        return partial(XGBVerifier, trees=10)

    @pytest.fixture
    def records(self, make_verifier: MakeVerifier, device: Device) -> TrainingSet:
        return tiny.training_set(device, make_verifier().features)

    def test_is_a_rule(self, rule: AdaptationRule) -> None:
        assert isinstance(rule, AdaptationRule), "a rule derives from pruner.adapt.rule.AdaptationRule"

    def test_prepare_gives_a_verifier(
        self, rule: AdaptationRule, make_verifier: MakeVerifier, device: Device
    ) -> None:
        verifier = _prepared(rule, make_verifier, device)
        assert isinstance(verifier, Verifier), "prepare returns the verifier that the run ranks with"
        assert verifier.features, "the verifier that prepare returns names no features"
        if verifier.fitted:
            unseen = tiny.unseen(device, verifier.features)
            verifier_scores(verifier.predict(unseen), 20, verifier)

    def test_a_fitted_verifier_stays_fitted(
        self, rule: AdaptationRule, make_verifier: MakeVerifier, device: Device
    ) -> None:
        assert rule.prepare(tiny.taught(make_verifier(), device)).fitted, (
            "the fitted verifier that it is given is unfitted after prepare: the first round ranks with it"
        )

    def test_a_verifier_changes_through_its_contract_alone(
        self, rule: AdaptationRule, records: TrainingSet, make_verifier: MakeVerifier, device: Device
    ) -> None:
        verifier = Watched(tiny.taught(make_verifier(), device))
        prepared = rule.prepare(verifier)
        for known in (20, 40, len(records)):
            assert rule.update(prepared, tiny.selected(records, np.arange(known))) is None
        for given in vars(verifier)["calls"]:
            assert isinstance(given, TrainingSet), "fit and refine take a TrainingSet"
            assert set(given.features) >= set(verifier.features), "fit needs every feature of the verifier"
            assert all(len(batch) == len(given) for batch in given.features.values())
            assert len(given.group) == len(given.order) == len(given)

    def test_records_that_teach_nothing(
        self, make: Make, records: TrainingSet, make_verifier: MakeVerifier, device: Device
    ) -> None:
        for odd in tiny.odd_training_sets(records).values():
            rule = make()
            verifier = _prepared(rule, make_verifier, device)
            rule.update(verifier, odd)
            rule.update(verifier, records)

    def test_an_unfitted_verifier_and_a_fitted_one(
        self, make: Make, records: TrainingSet, make_verifier: MakeVerifier, device: Device
    ) -> None:
        """An unfitted one may be refused, before anything is measured."""
        unseen = tiny.unseen(device, make_verifier().features)
        for rule, given in ((make(), make_verifier()), (make(), tiny.taught(make_verifier(), device))):
            try:
                verifier = rule.prepare(given)
            except ConfigError:
                continue
            rule.update(verifier, records)
            verifier_scores(verifier.predict(unseen), 20, verifier)

    def test_a_rule_that_never_learns_changes_nothing(
        self, rule: AdaptationRule, records: TrainingSet, make_verifier: MakeVerifier, device: Device
    ) -> None:
        if rule.learns:
            pytest.skip("it learns")
        unseen = tiny.unseen(device, make_verifier().features)
        verifier = rule.prepare(tiny.taught(make_verifier(), device))
        before = verifier.predict(unseen)
        rule.update(verifier, tiny.selected(records, np.arange(20)))
        np.testing.assert_array_equal(verifier.predict(unseen), before)

    def test_records_are_left_as_they_are(
        self, rule: AdaptationRule, records: TrainingSet, make_verifier: MakeVerifier, device: Device
    ) -> None:
        same = unchanged(records)
        rule.update(_prepared(rule, make_verifier, device), records)
        assert same(), "update changes the training set it is given"

    def test_another_process_adapts_the_same(
        self, make: Make, make_verifier: MakeVerifier, device: Device
    ) -> None:
        here = _rounds(make, make_verifier, device)
        there = self.elsewhere(partial(_rounds, make, make_verifier, device))
        np.testing.assert_array_equal(there, here)
