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
from pruner.features.batch import FeatureBatch
from pruner.testing import tiny
from pruner.testing.suite import Suite, unchanged

Make = Callable[[], AdaptationRule]


def _verifier() -> Verifier:
    return XGBVerifier(trees=10)


def _rounds(make: Make, device: Device) -> NDArray[np.float64]:
    """A verifier's scores after three rounds."""
    rule, verifier = make(), _verifier()
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
            f"the rule sets verifier.{name}: a verifier changes through `fit` and `load_state_dict` only"
        )

    @property
    def fitted(self) -> bool:  # type: ignore[override]  # the inner one's
        return bool(vars(self)["inner"].fitted)

    def fit(self, training_set: TrainingSet) -> None:
        vars(self)["calls"].append(training_set)
        vars(self)["inner"].fit(training_set)

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = vars(self)["inner"].predict(features)
        return scores

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = vars(self)["inner"].state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        vars(self)["inner"].load_state_dict(state)


class AdaptationSuite(Suite):
    """`make()` gives an AdaptationRule."""

    @pytest.fixture
    def rule(self, make: Make) -> AdaptationRule:
        return make()

    @pytest.fixture
    def records(self, device: Device) -> TrainingSet:
        return tiny.training_set(device, _verifier().features)

    def test_is_a_rule(self, rule: AdaptationRule) -> None:
        assert isinstance(rule, AdaptationRule), "a rule derives from pruner.adapt.rule.AdaptationRule"

    def test_a_verifier_changes_through_its_contract_alone(
        self, rule: AdaptationRule, records: TrainingSet
    ) -> None:
        verifier = Watched(_verifier())
        for known in (20, 40, len(records)):
            assert rule.update(verifier, tiny.selected(records, np.arange(known))) is None
        for given in vars(verifier)["calls"]:
            assert isinstance(given, TrainingSet), "fit takes a TrainingSet"
            assert set(given.features) >= set(verifier.features), "fit needs every feature of the verifier"
            assert all(len(batch) == len(given) for batch in given.features.values())
            assert len(given.group) == len(given.order) == len(given)

    def test_records_that_teach_nothing(self, make: Make, records: TrainingSet) -> None:
        for odd in tiny.odd_training_sets(records).values():
            rule, verifier = make(), _verifier()
            rule.update(verifier, odd)
            rule.update(verifier, records)

    def test_an_unfitted_verifier_and_a_fitted_one(
        self, make: Make, records: TrainingSet, device: Device
    ) -> None:
        unseen = tiny.unseen(device, _verifier().features)
        for verifier in (_verifier(), tiny.taught(_verifier(), device)):
            make().update(verifier, records)
            verifier_scores(verifier.predict(unseen), 20, verifier)

    def test_records_are_left_as_they_are(self, rule: AdaptationRule, records: TrainingSet) -> None:
        same = unchanged(records)
        rule.update(_verifier(), records)
        assert same(), "update changes the training set it is given"

    def test_another_process_adapts_the_same(self, make: Make, device: Device) -> None:
        here = _rounds(make, device)
        np.testing.assert_array_equal(self.elsewhere(partial(_rounds, make, device)), here)
