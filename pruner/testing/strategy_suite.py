"""What every search strategy must do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pytest

from pruner.analyzer.device import Device
from pruner.analyzer.roofline import RooflineDraft
from pruner.costmodel.random import RandomVerifier
from pruner.costmodel.verifier import Verifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import RejectedError
from pruner.measure.measurement import Measurement
from pruner.search.candidate import Candidate
from pruner.search.population import Population
from pruner.search.strategy import SearchStrategy, Session
from pruner.testing import tiny
from pruner.testing.suite import Suite, refused

Make = Callable[[], SearchStrategy]
# Rounds after which a space of a few dozen programs must be used up.
MOST_ROUNDS = 200


def _session(
    strategy: SearchStrategy,
    device: Device,
    *,
    edge: int = tiny.UNSEEN,
    pool: Population | None = None,
    verifier: Verifier | None = None,
    seed: int = 0,
) -> Session:
    return strategy.start(
        tiny.space(device, edge),
        draft=RooflineDraft(device=device, explored=400, size=40, random=8),
        verifier=RandomVerifier() if verifier is None else verifier,
        pool=pool,
        rng=np.random.default_rng(seed),
    )


def _proposals(make: Make, device: Device) -> list[bytes]:
    session, keys = _session(make(), device), []
    for _ in range(2):
        batch = session.propose(5)
        session.observe(_measured(batch))
        keys += [candidate.key for candidate in batch]
    return keys


def _measured(batch: Sequence[Candidate], failing: int = 0) -> list[Measurement]:
    """Made-up latencies that follow the key; the first `failing` did not run."""
    return [
        Measurement(candidate, None, None, 0.1, 0.1, "run", "made up")
        if i < failing
        else Measurement(candidate, 1e-6 * (1 + sum(candidate.key) % 97), 0.0, 0.1, 0.1)
        for i, candidate in enumerate(batch)
    ]


class StrategySuite(Suite):
    """`make()` gives a SearchStrategy. `exhausts`: false for one that goes on for minutes before it finds a
    small space used up. `seeded`: false for one whose proposals depend on more than the seed, on threads that
    race or an outside service."""

    exhausts: ClassVar[bool] = True
    seeded: ClassVar[bool] = True

    @pytest.fixture
    def strategy(self, make: Make) -> SearchStrategy:
        return make()

    def test_describes_itself(self, strategy: SearchStrategy, device: Device) -> None:
        assert isinstance(strategy, SearchStrategy), (
            "a strategy derives from pruner.search.strategy.SearchStrategy"
        )
        assert isinstance(strategy.ranks_pool, bool)
        assert isinstance(strategy.uses_verifier, bool)
        assert isinstance(_session(strategy, device), Session), "start returns a Session"

    @pytest.mark.parametrize("verifier", [RandomVerifier, XGBVerifier])
    def test_rounds_of_new_candidates(
        self, strategy: SearchStrategy, device: Device, verifier: Callable[[], Verifier]
    ) -> None:
        """With a fitted verifier, and with one that never is."""
        session, keys = _session(strategy, device, verifier=verifier()), []
        for n in (1, 6, 6):
            batch = session.propose(n)
            assert 0 < len(batch) <= n, f"{len(batch)} candidates of a space of thousands for propose({n})"
            assert all(isinstance(candidate, Candidate) for candidate in batch)
            session.observe(_measured(batch))
            keys += [candidate.key for candidate in batch]
        assert len(set(keys)) == len(keys), "a candidate is proposed twice"
        counts = session.explored, session.drafted, session.verified
        assert all(isinstance(count, int) and count >= 0 for count in counts)

    def test_most_proposals_are_programs(self, strategy: SearchStrategy, device: Device) -> None:
        refused = 0
        batch = _session(strategy, device).propose(12)
        for candidate in batch:
            try:
                candidate.materialise()
            except RejectedError:
                refused += 1
        assert refused < len(batch) / 2, (
            f"TVM refuses {refused} of {len(batch)}: propose what Space.legal accepts"
        )

    def test_failures_are_survived(self, strategy: SearchStrategy, device: Device) -> None:
        session = _session(strategy, device)
        for failing in (5, 5, 2, 0):
            batch = session.propose(5)
            assert batch, "nothing is proposed after failures"
            session.observe(_measured(batch, failing))

    def test_ends_when_the_space_is_exhausted(self, strategy: SearchStrategy, device: Device) -> None:
        if not self.exhausts:
            pytest.skip("it takes minutes")
        session, keys = _session(strategy, device, edge=tiny.TINIEST), []
        for _ in range(MOST_ROUNDS):
            batch = session.propose(16)
            if not batch:
                break
            session.observe(_measured(batch))
            keys += [candidate.key for candidate in batch]
        else:
            pytest.fail(f"{len(keys)} candidates of a tiny space are proposed, and no end is in sight")
        assert keys
        assert len(set(keys)) == len(keys), "a candidate is proposed twice"
        assert session.propose(16) == [], "an exhausted space has new candidates after all"

    def test_a_pool_is_all_there_is(self, strategy: SearchStrategy, device: Device) -> None:
        pool = tiny.programs(tiny.space(device, tiny.UNSEEN), 15)
        if not strategy.ranks_pool:
            with refused("ranks_pool is False: `start` with a pool must raise a ConfigError"):
                _session(strategy, device, pool=pool)
            return
        session, keys = _session(strategy, device, pool=pool), []
        for _ in range(MOST_ROUNDS):
            batch = session.propose(6)
            if not batch:
                break
            session.observe(_measured(batch))
            keys += [candidate.key for candidate in batch]
        assert set(keys) <= {candidate.key for candidate in pool}, "candidates outside the pool are proposed"
        assert len(set(keys)) == len(keys), "a candidate is proposed twice"
        assert keys

    def test_the_same_seed_proposes_the_same(self, make: Make, device: Device) -> None:
        """Here and in another process."""
        if not self.seeded:
            pytest.skip("its proposals do not follow from the seed alone")
        here = _proposals(make, device)
        assert _proposals(make, device) == here, "two sessions with one seed differ: draw from `rng` alone"
        assert self.elsewhere(_proposals, make, device) == here, (
            "another process proposes others: is there a set or hash() in the order?"
        )

    def test_sessions_are_apart(self, strategy: SearchStrategy, device: Device) -> None:
        """One strategy searches several tasks at once."""
        first, second = _session(strategy, device), _session(strategy, device)
        batches = first.propose(5), second.propose(5)
        assert all(batches)
        if self.seeded:
            one, other = ([candidate.key for candidate in batch] for batch in batches)
            assert one == other, "a session knows what another one proposed"
