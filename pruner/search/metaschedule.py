"""TVM's own search, the opponent: its evolutionary strategy and its own cost model on our measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from tvm.s_tir import meta_schedule as ms

from pruner._tvm import tune_context
from pruner.cores import usable_cpus
from pruner.errors import ConfigError
from pruner.measure.clock import stage
from pruner.search.candidate import Candidate, TraceCandidate
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.search.strategy import SearchStrategy, Session

if TYPE_CHECKING:
    from pruner.analyzer.draft import DraftModel
    from pruner.costmodel.verifier import Verifier
    from pruner.measure.measurement import Measurement

# The loop ends the session, not TVM's own budget.
UNLIMITED = 2**30
# What TVM's database takes for a failed run, in seconds.
FAILED = 1e10


class MetaScheduleSearch(SearchStrategy):
    """`EvolutionarySearch` and `XGBModel` with TVM's settings; our draft and verifier are not used.

    As in TVM, the cost model's scores are random until it has seen 100 candidates. Two settings are kinder
    than TVM's: the search gets every core the process may use, not only physical ones, and the trees are
    trained with one thread, because on so few records several spend most of their time on waiting for
    each other (seconds an update where one thread takes tenths); what they learn is the same.
    """

    def start(
        self,
        space: Space,
        *,
        draft: DraftModel,
        verifier: Verifier,
        pool: Population | None,
        rng: np.random.Generator,
    ) -> MetaScheduleSession:
        if pool is not None:
            raise ConfigError("search=metaschedule makes its own candidates and cannot choose from a pool")
        return MetaScheduleSession(space, rng)


class MetaScheduleSession(Session):
    """TVM's strategy lives from the first `propose`, whose `n` is TVM's number of trials per iteration.

    `explored` counts the candidates its cost model scored, `verified` those scored when it was trained.
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self._task = space.task
        self._rng = rng
        cores = len(usable_cpus())
        self._strategy = ms.search_strategy.EvolutionarySearch()
        self._context = tune_context(
            space.task.target,
            mod=space.task.mod,
            space_generator="post-order-apply",
            search_strategy=self._strategy,
            task_name=space.task.name,
            num_threads=cores,
            rand_state=int(rng.integers(1, 2**31 - 1)),
        )
        self._model = ms.cost_model.XGBModel(num_tuning_cores=1)
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(space.task.mod)
        self._started = False
        self._queue: list[ms.MeasureCandidate] = []
        self._asked: list[ms.MeasureCandidate] = []

    def propose(self, n: int) -> list[Candidate]:
        with stage("draft"), _numpy_seeded(self._rng):
            if not self._started:
                self._start(n)
            while not self._queue:
                found = self._strategy.generate_measure_candidates()
                if found is None:
                    break
                self._queue += list(found)
                self._count()
        self._asked, self._queue = self._queue[:n], self._queue[n:]
        return [TraceCandidate.of(self._task, one.sch) for one in self._asked]

    def observe(self, measurements: Sequence[Measurement]) -> None:
        results = [_runner_result(measurement) for measurement in measurements]
        self._strategy.notify_runner_results(self._asked, results)
        for one, result in zip(self._asked, results, strict=True):
            self._database.commit_tuning_record(
                ms.database.TuningRecord(
                    trace=one.sch.trace,
                    workload=self._workload,
                    run_secs=result.run_secs or [FAILED],
                    target=self._task.target,
                    args_info=one.args_info,
                )
            )
        # Like TVM's callback: what did not compile teaches the model nothing, what did not run does.
        built = [i for i, measurement in enumerate(measurements) if not _unbuilt(measurement)]
        with stage("fit"):
            self._model.update(self._context, [self._asked[i] for i in built], [results[i] for i in built])

    def _start(self, n: int) -> None:
        self._context.pre_tuning(
            max_trials=UNLIMITED,
            num_trials_per_iter=n,
            database=self._database,
            cost_model=self._model,
        )
        self._started = True

    def _count(self) -> None:
        scored = self._strategy.population_size * (self._strategy.genetic_num_iters + 1)
        self.explored += scored
        if self._model.data_size >= self._model.num_warmup_samples:
            self.verified += scored


def _runner_result(measurement: Measurement) -> ms.runner.RunnerResult:
    if measurement.latency_s is not None:
        return ms.runner.RunnerResult(run_secs=[measurement.latency_s], error_msg=None)
    return ms.runner.RunnerResult(run_secs=None, error_msg=measurement.message or str(measurement.failure))


def _unbuilt(measurement: Measurement) -> bool:
    """Whether the candidate failed before it ran (a time-out can strike in either phase), or was compiled
    and not timed."""
    if measurement.failure is None:
        return measurement.latency_s is None
    return measurement.failure == "build" or (measurement.failure == "timeout" and not measurement.run_s)


@contextmanager
def _numpy_seeded(rng: np.random.Generator) -> Iterator[None]:
    """TVM's cost model draws its first scores from numpy's global state: seeded here, then given back."""
    state = np.random.get_state()  # noqa: NPY002  # the state TVM uses
    np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
