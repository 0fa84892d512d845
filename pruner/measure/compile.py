"""Builds CUDA candidates with nvcc and times nothing: no GPU is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tvm.target import Target

from pruner.errors import DeviceError
from pruner.measure import nvcc
from pruner.measure.builder import BuildingMeasurer
from pruner.measure.process import Reply, Worker
from pruner.measure.timing import TimingRule
from pruner.measure.trial import MeasureTrial
from pruner.search.candidate import Candidate
from pruner.workload import Task


class CompileMeasurer(BuildingMeasurer):
    """Gives each candidate's registers, spilled bytes, shared memory and size as `resources`.

    Args:
        task: the workload.
        threads: threads of TVM's runtime in a worker.
        workers: processes that build; by default as many as there are cores, at most 8.
        build_timeout_s: after these seconds a worker is killed, with the nvcc that it started.
        recycle_after: builds after which a worker is replaced.
        memory_bytes: see BuildingMeasurer.
    """

    times: ClassVar[bool] = False

    def __init__(
        self,
        *,
        task: Task,
        threads: int,
        workers: int | None = None,
        build_timeout_s: float = 60.0,
        recycle_after: int = 200,
        memory_bytes: float | None = None,
    ) -> None:
        self.check_target(task.target)
        super().__init__(
            task.mod,
            task.target,
            threads=threads,
            workers=workers,
            build_timeout_s=build_timeout_s,
            recycle_after=recycle_after,
            memory_bytes=memory_bytes,
            rule=TimingRule(),
        )

    @classmethod
    def check_target(cls, target: Target) -> None:
        if target.kind.name != "cuda":
            raise DeviceError(
                f"measure=compile compiles CUDA programs and times none; the target's kind is "
                f"{target.kind.name}: choose a GPU, such as device=a100-40g, or measure=local."
            )
        nvcc.check_arch(str(target.attrs["arch"]))

    def _measure(self, candidates: Sequence[Candidate], trials: list[MeasureTrial]) -> None:
        trials += [self._materialise(candidate) for candidate in candidates]
        self._build(trials, lambda trial: ("compile", trial.text))

    def _built(self, trial: MeasureTrial, reply: Reply, worker: Worker | None) -> None:
        super()._built(trial, reply, worker)
        trial.resources = reply.value
