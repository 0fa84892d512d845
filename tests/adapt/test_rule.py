"""Adaptation rules: who calls fit, and with what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.adapt.rule import Frozen, Scratch
from pruner.costmodel.verifier import TrainingSet
from pruner.costmodel.xgb import XGBVerifier
from pruner.features.batch import FeatureBatch


def records(n: int, sign: float) -> TrainingSet:
    """n candidates of one column, fast where it is high (sign 1) or low (sign -1)."""
    x = np.linspace(0, 1, n, dtype=np.float32)[:, None]
    labels = 0.5 + sign * (x[:, 0].astype(np.float64) - 0.5)
    batch = FeatureBatch(x, np.arange(n + 1), "symbols", 1)
    return TrainingSet({"symbols": batch}, labels, np.zeros(n, dtype=np.int64), np.arange(n))


def trend(verifier: XGBVerifier, features: Mapping[str, FeatureBatch]) -> NDArray[Any]:
    scores = verifier.predict(features)
    return np.sign(scores[-1] - scores[0])


def test_scratch_forgets_what_it_is_not_given() -> None:
    verifier = XGBVerifier()
    for sign in (1.0, -1.0):
        Scratch().update(verifier, records(30, sign))
        assert trend(verifier, records(30, sign).features) == sign


def test_frozen_changes_nothing() -> None:
    verifier = XGBVerifier()
    Frozen().update(verifier, records(30, 1.0))
    assert not verifier.fitted
    verifier.fit(records(30, 1.0))
    before = verifier.predict(records(30, 1.0).features)
    Frozen().update(verifier, records(30, -1.0))
    np.testing.assert_array_equal(verifier.predict(records(30, 1.0).features), before)
