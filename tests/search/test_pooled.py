"""Sessions that choose from a pool."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from tvm.target import Target

from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel, NoDraft
from pruner.costmodel.random import RandomVerifier
from pruner.errors import RejectedError
from pruner.features.batch import FeatureBatch
from pruner.measure.measurement import Measurement
from pruner.search.latent import LatentSearch
from pruner.search.materialise import materialise_many
from pruner.search.population import Population
from pruner.search.random import RandomSearch
from pruner.search.space import Space
from pruner.search.strategy import SearchStrategy, Session
from pruner.workload import load_task

DEVICE = Device.load("x86-64")


class Unfitted(RandomVerifier):
    """Has never learnt anything."""

    fitted = False


class Ranking(DraftModel):
    """Scores by a row's place in the pool: the lower the better."""

    def __init__(self, pool: Population, share: float) -> None:
        super().__init__(device=DEVICE, share=share)
        self.places = {key: place for place, key in enumerate(key_list(pool))}

    def score(self, population: Population) -> NDArray[np.float64]:
        return np.array([self.places[candidate.key] for candidate in population], dtype=np.float64)


class Reversed(RandomVerifier):
    """Likes best what `order` has last; remembers how many it was asked about."""

    fitted = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        n = len(next(iter(features.values())))
        self.asked.append(n)
        return np.arange(n, dtype=np.float64)


@pytest.fixture(scope="module")
def pool() -> Population:
    """Rows of any kind, of which TVM refuses some."""
    space = Space.of(load_task("T2D/0", Target(dict(DEVICE.target))))
    rows = space.unique(space.sample(50, np.random.default_rng(1)))[:41]
    assert 0 < space.legal(rows).sum() < len(rows) == 41
    return rows


def start(
    search: SearchStrategy, pool: Population, draft: DraftModel, *, verifier: RandomVerifier, seed: int = 0
) -> Session:
    rng = np.random.default_rng(seed)
    return search.start(pool.space, draft=draft, verifier=verifier, pool=pool, rng=rng)


def key_list(rows: Population) -> list[bytes]:
    return [candidate.key for candidate in rows]


def keys(session: Session, n: int) -> list[bytes]:
    batch = session.propose(n)
    session.observe([Measurement(candidate, 1.0, None, 0.0, 0.0) for candidate in batch])
    return [candidate.key for candidate in batch]


@pytest.mark.parametrize("search", [RandomSearch(), LatentSearch(), LatentSearch(fitness="verifier")])
@pytest.mark.parametrize("verifier", [Unfitted, RandomVerifier])
def test_every_row_is_proposed_once_whatever_tvm_makes_of_it(
    pool: Population, search: SearchStrategy, verifier: type[RandomVerifier], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pruner.search.candidate.RowCandidate.materialise", None)
    twice = Population.concat([pool, pool[:5]])
    session = start(search, twice, NoDraft(device=DEVICE), verifier=verifier())
    proposed: list[bytes] = []
    while batch := keys(session, 6):
        proposed += batch
    assert sorted(proposed) == sorted(key_list(pool))
    assert session.propose(6) == []
    assert session.explored >= 41


def test_what_tvm_makes_no_program_of_comes_last_for_a_verifier_that_reads_programs(pool: Population) -> None:
    class Reading(Reversed):
        features = ("statement",)

    draft = NoDraft(device=DEVICE, share=1.0)
    session = start(LatentSearch(epsilon=0.0), pool, draft, verifier=Reading())
    proposed: list[bytes] = []
    while batch := keys(session, 41):
        proposed += batch
    made = [not isinstance(one, RejectedError) for one in materialise_many(list(pool), verify=False)]
    programs = {key for key, yes in zip(key_list(pool), made, strict=True) if yes}
    assert 0 < len(programs) < 41
    assert set(proposed[: len(programs)]) == programs
    assert sorted(proposed) == sorted(key_list(pool))
    assert session.verified == len(programs)


def test_the_draft_keeps_its_share_of_the_pool(pool: Population) -> None:
    verifier = Reversed()
    session = start(LatentSearch(epsilon=0.0), pool, Ranking(pool, 0.25), verifier=verifier)
    # ceil(0.25 x 41) = 11 are drafted, and of those the verifier likes the last ones.
    assert keys(session, 3) == [key_list(pool)[i] for i in [10, 9, 8]]
    assert (session.explored, session.drafted, session.verified) == (41, 11, 11)
    # Three are gone, so three more come in.
    assert keys(session, 2) == [key_list(pool)[i] for i in [13, 12]]
    assert (session.explored, session.drafted, session.verified) == (41 + 38, 22, 22)
    assert verifier.asked == [11, 11]


def test_without_a_fitted_verifier_the_drafts_order_stands(pool: Population) -> None:
    session = start(LatentSearch(epsilon=0.0), pool, Ranking(pool, 0.1), verifier=Unfitted())
    assert keys(session, 4) == key_list(pool)[:4]
    assert session.verified == 0


def test_a_search_that_follows_the_verifier_ranks_the_whole_pool(pool: Population) -> None:
    verifier = Reversed()
    search = LatentSearch(fitness="verifier", epsilon=0.0)
    session = start(search, pool, Ranking(pool, 0.1), verifier=verifier)
    assert keys(session, 2) == [key_list(pool)[i] for i in [40, 39]]
    assert verifier.asked == [41]
    assert (session.explored, session.drafted, session.verified) == (41, 41, 41)


def test_without_a_formula_the_draft_is_a_random_one(pool: Population) -> None:
    """Each program is drafted as often as any other, wherever it stands in the pool."""
    runs = 400
    counts = dict.fromkeys(key_list(pool), 0)
    for seed in range(runs):
        draft = NoDraft(device=DEVICE, share=0.25)
        session = start(LatentSearch(epsilon=0.0), pool, draft, verifier=Unfitted(), seed=seed)
        for key in keys(session, 11):
            counts[key] += 1
    share = 11 / 41
    assert (
        max(abs(count - runs * share) for count in counts.values()) < 4 * (runs * share * (1 - share)) ** 0.5
    )


def test_equal_scores_of_the_verifier_leave_the_drafts_order(pool: Population) -> None:
    class Equal(Reversed):
        def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
            return np.zeros(len(next(iter(features.values()))))

    session = start(LatentSearch(epsilon=0.0), pool, Ranking(pool, 0.25), verifier=Equal())
    assert keys(session, 4) == key_list(pool)[:4]
    sets = [
        frozenset(keys(start(LatentSearch(), pool, NoDraft(device=DEVICE), verifier=Equal(), seed=seed), 4))
        for seed in range(5)
    ]
    assert len(set(sets)) == 5
