"""A program on its way through a measurer."""

from __future__ import annotations

from dataclasses import dataclass, field

from pruner.measure.measurement import Measurement
from pruner.measure.nvcc import Resources
from pruner.measure.process import Reply, Worker
from pruner.measure.timing import summary
from pruner.search.candidate import Candidate


@dataclass(eq=False)
class MeasureTrial:
    """text: its module as JSON; owner: the worker that holds it compiled; samples: seconds of a call;
    failure, message: what went wrong. candidate: None for the untuned program."""

    key: int
    candidate: Candidate | None
    text: str = ""
    owner: Worker | None = None
    build_s: float = 0.0
    run_s: float = 0.0
    samples: list[float] = field(default_factory=list)
    resources: Resources | None = None
    failure: str | None = None
    message: str = ""
    compared: bool = False

    @property
    def finished(self) -> bool:
        """Something is known of it."""
        return bool(self.samples or self.resources or self.failure)

    def fail(self, kind: str, reply: Reply) -> None:
        """Takes a reply's failure: `timeout` where the worker had to be killed, else `kind`."""
        self.failure = "timeout" if reply.failure == "timeout" else kind
        self.message = reply.message

    def measurement(self) -> Measurement:
        """What became of it."""
        latency, spread = (None, None) if self.failure or not self.samples else summary(self.samples)
        return Measurement(
            self.candidate,
            latency,
            spread,
            self.build_s,
            self.run_s,
            self.failure,
            self.message,
            self.compared,
            self.resources,
        )
