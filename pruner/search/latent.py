"""Draft, then verify: the search strategy of Pruner (ASPLOS 2025, algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.draft import DraftModel, draft_scores
from pruner.costmodel.guard import verifier_scores
from pruner.errors import ConfigError, RejectedError
from pruner.features.make import make_extractors
from pruner.measure.clock import stage
from pruner.search.candidate import Candidate
from pruner.search.explorer import Fitness, explore
from pruner.search.materialise import HOPELESS, materialise_many, new_programs
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.search.strategy import SearchStrategy, Session
from pruner.settings import whole

if TYPE_CHECKING:
    from pruner.costmodel.verifier import Verifier
    from pruner.measure.measurement import Measurement

FITNESS = ("draft", "verifier")
# Rows explored a round when some must be replayed one by one, a few milliseconds each.
SLOW_EXPLORED = 1000


class LatentSearch(SearchStrategy):
    """Explores with a cheap fitness, ranks what it kept with the verifier, proposes the best.

    Args:
        fitness: what the genetic search follows: `draft` (the paper's) or `verifier`, which leaves the
            formula out of the ranking but not out of the work.
        parents: best measured rows that stand in the first generation of every exploration.
        epsilon: share of a batch drawn at random from the draft, whatever the verifier says.
    """

    ranks_pool: ClassVar[bool] = True
    uses_verifier: ClassVar[bool] = True

    def __init__(self, *, fitness: str = "draft", parents: int = 64, epsilon: float = 0.1) -> None:
        if fitness not in FITNESS:
            raise ConfigError(f"search.fitness={fitness}: accepted are {', '.join(FITNESS)}")
        if not 0 <= epsilon <= 1:
            raise ConfigError(f"search.epsilon={epsilon}: give a share from 0 to 1")
        whole(0, parents=parents)
        self.fitness = fitness
        self.parents = parents
        self.epsilon = epsilon

    def start(
        self,
        space: Space,
        *,
        draft: DraftModel,
        verifier: Verifier,
        pool: Population | None,
        rng: np.random.Generator,
    ) -> LatentSession:
        if pool is None:
            return LatentSession(self, space, draft, verifier, rng)
        from pruner.search.pooled import RankedPool

        return RankedPool(self, draft, verifier, pool, rng)


class LatentSession(Session):
    """One task's rounds: draft, rank, take."""

    def __init__(
        self,
        settings: LatentSearch,
        space: Space,
        draft: DraftModel,
        verifier: Verifier,
        rng: np.random.Generator,
    ) -> None:
        self._settings = settings
        self._space = space
        self._draft = draft
        self._verifier = verifier
        self._rng = rng
        self._extractors = make_extractors(verifier.features, draft.device)
        self._explored = draft.explored if all(space.supported) else min(draft.explored, SLOW_EXPLORED)
        # Rows that may not be drafted again: proposed, rejected, or another spelling of a proposed program.
        self._spent: list[np.uint64] = []
        self._programs: set[int] = set()
        self._measured: list[tuple[float, Population]] = []
        self._proposed: list[Population] = []

    def propose(self, n: int) -> list[Candidate]:
        batch: list[Candidate] = []
        self._proposed = []
        while len(batch) < n:
            if self._hopeless():
                break
            with stage("draft"):
                drafted = self._drafted()
            if not len(drafted):
                break
            batch += self._take(self._ranked(drafted, n), n - len(batch))
        return batch

    def observe(self, measurements: Sequence[Measurement]) -> None:
        for row, measurement in zip(self._proposed, measurements, strict=True):
            if measurement.latency_s is not None:
                self._measured.append((measurement.latency_s, row))
        self._measured.sort(key=lambda pair: pair[0])

    def _drafted(self) -> Population:
        """The best rows by the fitness, best first, then random ones; none that is spent."""
        spent = np.array(self._spent, dtype=np.uint64)
        parents = [row for _, row in self._measured[: self._settings.parents]]
        while True:
            by_verifier = self._follows_verifier()
            drafted, explored = explore(
                self._space,
                self._fitness(),
                explored=self._explored,
                size=self._draft.size,
                measured=spent,
                seeds=Population.concat(parents) if parents else None,
                rng=self._rng,
            )
            self.explored += explored
            # A verifier that failed on the way leaves costs on two scales.
            if by_verifier == self._follows_verifier():
                break
        self.drafted += len(drafted)
        # Some may be spent: draw until there are enough, within reason.
        for _ in range(4 if len(drafted) else 0):
            extra = self._space.sample_legal(2 * self._draft.random, self._rng)
            extra = extra[~np.isin(extra.hashes(), spent)]
            drafted = self._space.unique(Population.concat([drafted, extra[: self._draft.random]]))
            if len(extra) >= self._draft.random:
                break
        return drafted

    def _follows_verifier(self) -> bool:
        return self._settings.fitness == "verifier" and self._verifier.fitted

    def _fitness(self) -> Fitness:
        if not self._follows_verifier():
            return lambda rows: draft_scores(self._draft, rows)
        return lambda rows: -self._predict(list(rows), rows)

    def _predict(self, candidates: Sequence[Candidate], rows: Population) -> NDArray[np.float64]:
        """The verifier's scores; extractors that read decisions get the rows, the others the candidates."""
        with stage("features"):
            features = {
                name: extractor.extract(candidates if extractor.materialised else rows)
                for name, extractor in self._extractors.items()
            }
        with stage("predict"):
            return verifier_scores(self._verifier.predict(features), len(rows), self._verifier)

    def _ranked(self, rows: Population, n: int) -> Population:
        """The drafted rows in the order in which they should be measured."""
        order = np.arange(len(rows))
        if self._verifier.fitted:
            scores = self._scored(rows)
            order = np.argsort(-scores, kind="stable")
            if self._verifier.fitted:
                self.verified += int(np.isfinite(scores).sum())
        lucky = self._rng.permutation(len(rows))[: round(self._settings.epsilon * n)]
        best = order[~np.isin(order, lucky)]
        return rows[np.concatenate([best[: n - len(lucky)], lucky, best[n - len(lucky) :]])]

    def _scored(self, rows: Population) -> NDArray[np.float64]:
        """The verifier's scores; -inf for rows that TVM refuses, where an extractor needs their programs."""
        if not any(extractor.materialised for extractor in self._extractors.values()):
            # One that reads decisions may need programs of some, and finds out when it meets them.
            with suppress(RejectedError):
                return self._predict([], rows)
        # Whether the device can run them is looked at for those that are taken: nearly all that are drafted
        # pass.
        candidates = list(rows)
        with stage("materialise"):
            made = materialise_many(candidates, verify=False)
        accepted = np.array([not isinstance(one, RejectedError) for one in made])
        self._refused(rows[~accepted])
        scores = np.full(len(rows), -np.inf)
        if accepted.any():
            programs = [c for c, yes in zip(candidates, accepted, strict=True) if yes]
            scores[accepted] = self._predict(programs, rows[accepted])
        return scores

    def _refused(self, rows: Population) -> None:
        """TVM makes no program of these: they are not drafted again."""
        self._spent += list(rows.hashes())

    def _new(self, candidates: Sequence[Candidate]) -> list[int]:
        """Positions of the candidates that TVM accepts and that are programs not proposed before."""
        with stage("materialise"):
            return new_programs(candidates, self._programs)

    def _hopeless(self) -> bool:
        """Whether TVM will accept no row at all."""
        return not self._programs and len(self._spent) >= HOPELESS

    def _take(self, ranked: Population, n: int) -> list[Candidate]:
        """The first n rows that are new."""
        taken: list[Candidate] = []
        start = 0
        while len(taken) < n and start < len(ranked):
            block = ranked[start : start + n - len(taken)]
            candidates = list(block)
            new = self._new(candidates)
            self._spent += list(block.hashes())
            self._proposed += [block[i : i + 1] for i in new]
            taken += [candidates[i] for i in new]
            start += len(block)
        return taken
