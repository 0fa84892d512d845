"""What measurers share that build candidates in workers of this machine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import psutil
from tvm.ir import IRModule, save_json
from tvm.target import Target

from pruner.cores import usable_cpus
from pruner.errors import PrunerError
from pruner.measure.cause import root_cause
from pruner.measure.clock import stage
from pruner.measure.measurement import MeasureInterrupted, Measurement, Measurer
from pruner.measure.pool import Pool
from pruner.measure.process import Reply, Worker, WorkerSetup
from pruner.measure.timing import TimingRule
from pruner.measure.trial import MeasureTrial
from pruner.search.candidate import Candidate
from pruner.settings import positive, whole


class BuildingMeasurer(Measurer):
    """Keeps a pool of workers for the whole run, materialises candidates and has them built in parallel.

    Args:
        untuned: the task's program, in a form that runs.
        target: what is compiled for.
        threads: threads of TVM's runtime in a worker.
        workers: processes that build; None = as many as there are cores, at most 8.
        build_timeout_s: after these seconds a worker is killed and its candidate has failed.
        recycle_after: builds after which a worker is replaced.
        memory_bytes: a worker that holds more between two batches is replaced; None = its share of half
            the machine's memory.
        rule: how long to time.
    """

    def __init__(
        self,
        untuned: IRModule,
        target: Target,
        *,
        threads: int,
        workers: int | None,
        build_timeout_s: float,
        recycle_after: int,
        memory_bytes: float | None,
        rule: TimingRule,
    ) -> None:
        if workers is not None:
            whole(1, workers=workers)
        whole(1, recycle_after=recycle_after)
        positive(build_timeout_s=build_timeout_s)
        size = workers if workers is not None else min(8, len(usable_cpus()))
        self._build_timeout_s = build_timeout_s
        self._recycle_after = recycle_after
        self._memory_bytes = memory_bytes or psutil.virtual_memory().total / 2 / size
        self._untuned = save_json(untuned)
        self._trials = 0
        self._pool = Pool(size, WorkerSetup(self._untuned, save_json(target), threads, rule))

    def measure(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        trials: list[MeasureTrial] = []
        try:
            self._measure(candidates, trials)
            self._end_batch()
        except KeyboardInterrupt:
            finished = [trial for trial in trials if trial.finished]
            raise MeasureInterrupted([trial.measurement() for trial in finished]) from None
        return [trial.measurement() for trial in trials]

    @abstractmethod
    def _measure(self, candidates: Sequence[Candidate], trials: list[MeasureTrial]) -> None:
        """Adds a trial for each candidate, at once, and then finishes them."""

    def close(self) -> None:
        self._pool.kill()

    def _trial(self, candidate: Candidate | None, text: str = "") -> MeasureTrial:
        self._trials += 1
        return MeasureTrial(self._trials, candidate, text)

    def _materialise(self, candidate: Candidate) -> MeasureTrial:
        trial = self._trial(candidate)
        with stage("materialise"):
            try:
                trial.text = save_json(candidate.materialise().mod)
            except PrunerError as error:
                trial.failure, trial.message = "build", root_cause(str(error))
        return trial

    def _build(
        self, trials: Sequence[MeasureTrial], request: Callable[[MeasureTrial], tuple[Any, ...]]
    ) -> None:
        """Has those built that have not failed, each by its request to a worker."""
        sound = [trial for trial in trials if trial.failure is None]

        def told(index: int, reply: Reply, worker: Worker | None) -> None:
            self._built(sound[index], reply, worker)

        with stage("build"):
            requests = [request(trial) for trial in sound]
            self._pool.run(requests, timeout_s=self._build_timeout_s, told=told)

    def _built(self, trial: MeasureTrial, reply: Reply, worker: Worker | None) -> None:
        """Takes a worker's answer."""
        trial.build_s += reply.seconds
        if reply.failure is None:
            trial.owner = worker
        else:
            trial.fail("build", reply)

    def _end_batch(self) -> None:
        """Replaces workers while the caller goes on with other things."""
        with stage("build"):
            self._pool.recycle(self._recycle_after, self._memory_bytes)
