"""The latent search with an extractor that finds out late that TVM refuses a row."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from tvm.s_tir import Schedule

from pruner.analyzer.device import Device
from pruner.analyzer.roofline import RooflineDraft
from pruner.costmodel.random import RandomVerifier
from pruner.errors import RejectedError
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.search.candidate import Candidate, RowCandidate
from pruner.search.latent import LatentSearch
from pruner.search.population import Population
from tests.search.space_util import space_of


class ReadsPrograms(FeatureExtractor):
    """Of all candidates, though it does not say so."""

    name = "tests.search.test_latent.ReadsPrograms"
    version = 1
    columns = ("nothing",)

    def __init__(self, *, device: Device) -> None:
        pass

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        for candidate in candidates:
            candidate.unverified()
        n = len(candidates)
        return FeatureBatch(np.zeros((n, 1), np.float32), np.arange(n + 1), self.name, self.version)


class Indifferent(RandomVerifier):
    features = (ReadsPrograms.name,)
    fitted = True

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        return np.zeros(len(features[ReadsPrograms.name]))


def refused(candidate: Candidate) -> bool:
    """One in three, for a test."""
    return zlib.crc32(candidate.key) % 3 == 0


def test_rows_that_tvm_refuses_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    made = RowCandidate.unverified

    def unverified(candidate: RowCandidate) -> Schedule:
        if refused(candidate):
            raise RejectedError("as a test")
        return made(candidate)

    monkeypatch.setattr(RowCandidate, "unverified", unverified)
    session = LatentSearch().start(
        space_of("GMM/0"),
        draft=RooflineDraft(device=Device.load("x86-64"), explored=200, size=30, random=10),
        verifier=Indifferent(),
        pool=None,
        rng=np.random.default_rng(0),
    )
    proposed = session.propose(10)
    assert len(proposed) == 10
    assert not any(map(refused, proposed))
    # Ten more are drawn at random.
    assert 10 < session.verified < session.drafted + 10
