"""RandomVerifier: scores without knowledge, reproducibly."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pruner.costmodel.random import RandomVerifier
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch


def batch(n: int) -> dict[str, FeatureBatch]:
    values = np.arange(n, dtype=np.float32)[:, None]
    return {"symbols": FeatureBatch(values, np.arange(n + 1), "symbols", 1)}


def test_scores_are_new_each_time_and_follow_the_seed() -> None:
    first, second = RandomVerifier(seed=1), RandomVerifier(seed=1)
    scores = first.predict(batch(50))
    np.testing.assert_array_equal(scores, second.predict(batch(50)))
    assert len(set(scores)) == 50
    assert not np.array_equal(scores, first.predict(batch(50)))
    assert not np.array_equal(scores, RandomVerifier(seed=2).predict(batch(50)))


def test_a_saved_verifier_goes_on_where_it_was() -> None:
    verifier, loaded = RandomVerifier(seed=1), RandomVerifier(seed=2)
    verifier.predict(batch(3))
    loaded.load_state_dict(json.loads(json.dumps(verifier.state_dict())))
    np.testing.assert_array_equal(loaded.predict(batch(5)), verifier.predict(batch(5)))
    with pytest.raises(ConfigError, match="xgb"):
        loaded.load_state_dict({"model": "xgb"})
