"""The contract of measurers and what they return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tvm.target import Target

from pruner.measure.nvcc import Resources
from pruner.search.candidate import Candidate
from pruner.search.population import Population

# build: did not compile; timeout: killed after its time; run: crashed or raised; wrong: other numbers
# than the untuned program.
FAILURES = ("build", "timeout", "run", "wrong")


@dataclass(frozen=True)
class Measurement:
    """One trial, or the untuned program (candidate None).

    latency_s: median seconds of a call; spread_s: standard deviation over the repeats, None when there was
    but one; build_s, run_s: seconds it took to compile and to run; failure: one of FAILURES, and then
    latency_s is None and `message` says more, in one line; compared: its output was found equal to the
    untuned program's; resources: what a candidate needs that was compiled and not timed, which has neither
    latency nor failure."""

    candidate: Candidate | None
    latency_s: float | None
    spread_s: float | None
    build_s: float
    run_s: float
    failure: str | None = None
    message: str = ""
    compared: bool = False
    resources: Resources | None = None


class MeasureInterrupted(KeyboardInterrupt):
    """A batch was interrupted; `measurements` holds what was finished, in the candidates' order."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        super().__init__()
        self.measurements = list(measurements)


class Measurer(ABC):
    """Measures candidates on a device. `times`: it gives latencies; one that does not gives `resources`,
    and the run then learns nothing and ends without a best program.

    pool: the only candidates it can measure, because others measured them; None = any. machine: that they
    were measured on."""

    times: ClassVar[bool] = True
    pool: Population | None = None
    machine: str = ""

    @classmethod  # noqa: B027 (optional: most take any target)
    def check_target(cls, target: Target) -> None:
        """Raises DeviceError for a target whose programs it cannot measure here. Asked before anything is
        done."""

    @property
    def runtime_threads(self) -> int:
        """Threads that TVM's runtime really uses; 0 = not known."""
        return 0

    @abstractmethod
    def measure(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        """One measurement per candidate, in order. A failing candidate is a measurement with a named
        kind, never an exception; only an interrupt is one (MeasureInterrupted), after which the measurer
        is still usable. Bills its time to the stages `build` and `run`."""

    def baseline(self) -> Measurement | None:
        """The untuned program's timing, by the same settings; None where it cannot be timed."""
        return None

    def confirm(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        """Times finalists again, in turn and at length, and compares their output with the untuned
        program's on random inputs: `compared` where it is equal, a `wrong` failure where it differs. By
        default what `measure` says."""
        return self.measure(candidates)

    def close(self) -> None:  # noqa: B027 (optional: most measurers hold nothing)
        """Ends workers. Safe to call twice."""
