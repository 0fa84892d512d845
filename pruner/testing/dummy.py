"""A device made of two functions, for tests of everything that measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pruner.measure.measurement import FAILURES, Measurement, Measurer
from pruner.search.candidate import Candidate


class DummyMeasurer(Measurer):
    """Answers at once.

    Args:
        latency: seconds of a call, from the candidate.
        failure: one of FAILURES for a candidate that shall fail, else None.
        wrong: whether `confirm` finds the candidate's output to differ.
        baseline_s: latency of the untuned program; None where it cannot be timed.
    """

    def __init__(
        self,
        *,
        latency: Callable[[Candidate], float],
        failure: Callable[[Candidate], str | None] = lambda _: None,
        wrong: Callable[[Candidate], bool] = lambda _: False,
        baseline_s: float | None = None,
    ) -> None:
        self._latency = latency
        self._failure = failure
        self._wrong = wrong
        self._baseline_s = baseline_s
        self.measured: list[Candidate] = []
        self.closed = False

    def measure(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        self.measured += candidates
        return [self._one(candidate, self._failure(candidate)) for candidate in candidates]

    def baseline(self) -> Measurement | None:
        if self._baseline_s is None:
            return None
        return Measurement(None, self._baseline_s, 0.0, 0.0, self._baseline_s)

    def confirm(self, candidates: Sequence[Candidate]) -> list[Measurement]:
        return [
            replace(self._one(candidate, failure), compared=failure is None)
            for candidate in candidates
            for failure in ["wrong" if self._wrong(candidate) else self._failure(candidate)]
        ]

    def close(self) -> None:
        self.closed = True

    def _one(self, candidate: Candidate, failure: str | None) -> Measurement:
        if failure is None:
            latency = self._latency(candidate)
            return Measurement(candidate, latency, 0.0, 0.0, latency)
        if failure not in FAILURES:
            raise ValueError(f"failure {failure!r} is none of {', '.join(FAILURES)}")
        return Measurement(candidate, None, None, 0.0, 0.0, failure, f"a dummy {failure} failure")
