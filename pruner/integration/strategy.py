"""Our search inside TVM's own tuner: `meta_schedule.tune_tir(..., strategy=PrunerStrategy(...))`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from pruner.adapt.learner import Learner
from pruner.errors import PrunerError
from pruner.measure.measurement import Measurement
from pruner.search.candidate import Candidate
from pruner.search.space import Space
from pruner.workload import make_task

if TYPE_CHECKING:
    from pruner.adapt.rule import AdaptationRule
    from pruner.analyzer.draft import DraftModel
    from pruner.costmodel.verifier import Verifier
    from pruner.search.strategy import SearchStrategy, Session

_log = logging.getLogger(__name__)


@derived_object
class PrunerStrategy(ms.search_strategy.PySearchStrategy):  # type: ignore[misc]  # TVM has no types
    """A search strategy of this package as one of TVM's.

    TVM owns the loop, the device and the database. The space is MetaSchedule's default one for the target,
    and TVM's cost model is not asked (`cost_model="random"` saves its training). TVM clones a strategy for
    every task: the clones share draft, verifier and records; each has its own session.

    Args:
        search: starts the sessions.
        draft: the formula it drafts with.
        verifier: the learned model it ranks with.
        adapt: what happens to the verifier after every batch.
        shared: the verifier's records so far; clones get those of the first.
    """

    def __init__(
        self,
        search: SearchStrategy,
        *,
        draft: DraftModel,
        verifier: Verifier,
        adapt: AdaptationRule,
        shared: Learner | None = None,
    ) -> None:
        self._search = search
        self._draft = draft
        self._verifier = verifier
        self._adapt = adapt
        self._shared = shared or Learner(verifier, adapt, draft.device, _log.warning)
        self._session: Session | None = None
        self._proposed: list[Candidate] = []

    def _initialize_with_tune_context(self, context: ms.TuneContext) -> None:
        # TVM calls this for contexts it only clones, so nothing costly here. The context owns this object:
        # keeping it would be a cycle.
        self._mod, self._target, self._name = context.mod, context.target, context.task_name
        self._rng = np.random.default_rng(context.rand_state)

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: ms.Database | None = None,
        cost_model: ms.CostModel | None = None,
    ) -> None:
        self._left, self._batch = max_trials, num_trials_per_iter
        try:
            space = Space.of(make_task(self._mod, self._target, self._name))
        except PrunerError as error:
            # An exception would end the tuning of all tasks.
            _log.warning("%s is not tuned: %s", self._name, error)
            return
        self._task = self._shared.new_task()
        self._session = self._search.start(
            space, draft=self._draft, verifier=self._shared.verifier, pool=None, rng=self._rng
        )

    def post_tuning(self) -> None:
        self._session = None

    def generate_measure_candidates(self) -> list[ms.MeasureCandidate] | None:
        if self._session is None or self._left <= 0:
            return None
        self._proposed = self._session.propose(min(self._batch, self._left))
        return [_measure_candidate(one.materialise()) for one in self._proposed] or None

    def notify_runner_results(
        self, measure_candidates: Sequence[ms.MeasureCandidate], results: Sequence[ms.runner.RunnerResult]
    ) -> None:
        if self._session is None:
            return
        measurements = [
            _measurement(candidate, result) for candidate, result in zip(self._proposed, results, strict=True)
        ]
        self._left -= len(measurements)
        self._session.observe(measurements)
        if self._search.uses_verifier:
            self._shared.observe(measurements, self._task)

    def clone(self) -> Any:
        return PrunerStrategy(
            self._search,
            draft=self._draft,
            verifier=self._verifier,
            adapt=self._adapt,
            shared=self._shared,
        )


def _measure_candidate(schedule: Schedule) -> ms.MeasureCandidate:
    arguments = ms.arg_info.ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
    return ms.MeasureCandidate(schedule, arguments)


def _measurement(candidate: Candidate, result: ms.runner.RunnerResult) -> Measurement:
    """TVM reports what failed to build as a failed run too; its seconds of work are not known."""
    seconds = [float(second) for second in result.run_secs or ()]
    if result.error_msg is not None or not seconds:
        message = str(result.error_msg or "no run time").strip().splitlines()[-1]
        return Measurement(candidate, None, None, 0.0, 0.0, "run", message)
    return Measurement(candidate, float(np.median(seconds)), float(np.std(seconds)), 0.0, 0.0)
