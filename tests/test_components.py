"""The contracts of the parts that a run is assembled from."""

import numpy as np
import pytest

from pruner.analyzer.device import Device
from pruner.analyzer.draft import NoDraft
from pruner.costmodel.random import RandomVerifier
from pruner.errors import ConfigError, UntunableError
from tests.run_util import Scores


class Ranks(RandomVerifier):
    """A verifier whose scores come from a function."""

    fitted = True

    def __init__(self, make):
        super().__init__(seed=0)
        self.make = make

    def predict(self, features):
        return self.make(len(features["symbols"]))


@pytest.mark.parametrize("make", [np.zeros, lambda n: [1.0] * n, lambda n: -np.arange(n, dtype="float32")])
def test_scores_may_be_any_numbers(go, make):
    assert go(draft=Scores(make), verifier=Ranks(make)).summary.trials == 12


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda n: np.full(n, np.nan), "NaN"),
        (lambda n: np.zeros(n - 1), "candidates"),
        (lambda n: np.zeros((n, 1)), "shape"),
        (lambda n: np.full(n, "x"), "type"),
    ],
)
def test_scores_that_break_the_contract_are_refused(go, tmp_path, make, said):
    with pytest.raises(ConfigError, match=f"draft model Scores.*{said}"):
        go(draft=Scores(make))
    assert not (tmp_path / "run").exists()


def test_a_draft_that_keeps_nothing_is_reported(go):
    with pytest.raises(UntunableError, match="draft model"):
        go(draft=Scores(lambda n: np.full(n, np.inf)))


@pytest.mark.parametrize("setting", [{"explored": 0}, {"size": 0}, {"random": -1}, {"size": 1.5}])
def test_bad_draft_sizes(setting):
    (name,) = setting
    with pytest.raises(ConfigError, match=name):
        NoDraft(device=Device.load("x86-64"), **setting)


@pytest.mark.parametrize("part", ["draft", "verifier", "search", "adapt"])
def test_a_part_that_is_none_is_refused(go, part):
    with pytest.raises(ConfigError, match=f"{part} is 'symbol', a str"):
        go(**{part: "symbol"})
