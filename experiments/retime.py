"""Programs of several arms timed again: all in turn, in the same processes, with the same settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from omegaconf import DictConfig, OmegaConf
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.utils import shash2hex
from tvm.s_tir.schedule import Trace

from experiments.arm import Arm, ArmRun, run_arm
from experiments.block import Retimed
from experiments.place import Place, Program, Timings
from pruner._tvm import fast_intrinsics
from pruner.analyzer.device import Device
from pruner.config import compose, instantiate
from pruner.measure.measurement import Measurement, Measurer
from pruner.placement import given_device, host_threads, placed
from pruner.search.candidate import TraceCandidate
from pruner.workload import Task, load_task

# A program is up to a quarter faster or slower in one process than in the next, by where its data come to lie
# and by what else the machine does.
SITTINGS = 3


def on_this_machine(overrides: Sequence[str]) -> Callable[[str], Place]:
    """Where workloads are tuned with these overrides of `pruner tune`; what it gives raises what `Bench.of`
    does."""
    return lambda workload: Bench.of(compose([f"workload={workload}", *overrides]))


@dataclass(frozen=True)
class Bench(Place):
    """A workload on the device where it is measured; measure: the settings of the measurer. An arm is a
    process of its own."""

    task: Task
    device: Device
    measure: DictConfig

    @classmethod
    def of(cls, cfg: DictConfig) -> Bench:
        """Where `pruner tune` with these settings measures. Raises what that would raise."""
        described: Any = OmegaConf.to_container(cfg.device)
        device, task, _ = placed(
            given_device(described), cfg.target, lambda target: load_task(cfg.workload, target)
        )
        return cls(task, device, cfg.measure)

    @property
    def settings(self) -> Mapping[str, Any]:  # type: ignore[override]  # they depend on the task
        return {"workload_hash": shash2hex(self.task.mod)}

    @property
    def threads(self) -> int:
        """Of TVM's runtime, for every arm alike."""
        return host_threads(self.device)

    def run(self, arm: Arm, overrides: Sequence[str], folder: Path) -> ArmRun:
        return run_arm(arm, overrides, folder, self.threads)

    @contextmanager
    def measuring(self) -> Iterator[Measurer]:
        measurer: Measurer = instantiate(self.measure, task=self.task, threads=self.threads)
        try:
            yield measurer
        finally:
            measurer.close()

    def retime(self, programs: Mapping[str, Program]) -> Timings:
        """Times them in turn, SITTINGS times, each in processes of its own; their outputs are compared with
        the untuned program's first. The latency is the median; one that ever fails does not count."""
        # By name, which is a digest: no arm's programs always follow one another.
        names = sorted(programs)
        candidates = [self._candidate(programs[name].trace) for name in names]
        sittings = [self._sitting(candidates) for _ in range(SITTINGS)]
        *found, untuned = (_together(own) for own in zip(*sittings, strict=True))
        return Timings(dict(zip(names, found, strict=True)), untuned.latency_s)

    def _sitting(self, candidates: Sequence[TraceCandidate]) -> list[Measurement | None]:
        """Of the candidates and the untuned program."""
        with self.measuring() as measurer:
            measured = measurer.confirm(candidates)
            return [*measured, measurer.baseline()]

    def _candidate(self, trace: Sequence[Any]) -> TraceCandidate:
        if any(instruction[0] == "Tensorize" for instruction in trace[0]):
            fast_intrinsics(self.task.target)
        schedule = Schedule(self.task.mod)
        Trace.apply_json_to_schedule(trace, schedule)
        return TraceCandidate.of(self.task, schedule)


def _together(measured: Sequence[Measurement | None]) -> Retimed:
    """Of one program, as all sittings have it; None stands for one that is not timed."""
    found = [one for one in measured if one is not None]
    failures = [one.failure for one in found if one.failure is not None]
    latencies = [one.latency_s for one in found if one.latency_s is not None]
    if failures or not latencies:
        return Retimed(None, failures[0] if failures else None)
    return Retimed(median(latencies))
