"""What every measurer must do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from tvm.s_tir import Schedule

from pruner.analyzer.device import Device
from pruner.errors import RejectedError
from pruner.measure.measurement import FAILURES, Measurement, Measurer
from pruner.placement import host_threads
from pruner.search.candidate import Candidate, RowCandidate
from pruner.testing import tiny
from pruner.testing.suite import Suite

Make = Callable[..., Measurer]


class Refused(RowCandidate):
    """A candidate that TVM's post-processors refuse."""

    def materialise(self) -> Schedule:
        raise RejectedError("post-processor VerifyGPUCode refused the candidate")


class MeasurerSuite(Suite):
    """`make(task=task, threads=threads)` gives a Measurer."""

    @pytest.fixture
    def measurer(self, make: Make, device: Device) -> Iterator[Measurer]:
        made = make(task=tiny.space(device, tiny.UNSEEN).task, threads=host_threads(device))
        yield made
        made.close()

    @pytest.fixture
    def candidates(self, device: Device) -> list[Candidate]:
        return list(tiny.programs(tiny.space(device, tiny.UNSEEN), 3))

    def test_one_measurement_per_candidate_in_order(
        self, measurer: Measurer, candidates: list[Candidate]
    ) -> None:
        assert isinstance(measurer, Measurer), "it derives from pruner.measure.measurement.Measurer"
        for batch in ([], candidates[:1], candidates, [candidates[0]] * 2):
            done = measurer.measure(batch)
            assert len(done) == len(batch), f"{len(done)} measurements of {len(batch)} candidates"
            for candidate, measurement in zip(batch, done, strict=True):
                assert measurement.candidate is candidate, "measurements are not in the candidates' order"
                self.check(measurer, measurement)
                assert measurement.failure is None, f"a sound program fails: {measurement.message}"

    def test_a_failure_is_a_measurement(self, measurer: Measurer, candidates: list[Candidate]) -> None:
        first = candidates[0]
        assert isinstance(first, RowCandidate)
        refused = Refused(first.space, first.sketch_id, first.row)
        done = measurer.measure([candidates[1], refused, candidates[2]])
        assert [one.candidate for one in done] == [candidates[1], refused, candidates[2]]
        for measurement in done:
            self.check(measurer, measurement)
        assert [one.failure for one in done] == [None, "build", None]

    def test_finalists_and_the_untuned_program(self, measurer: Measurer, candidates: list[Candidate]) -> None:
        untuned = measurer.baseline()
        if untuned is not None:
            assert untuned.candidate is None, "the untuned program is no candidate"
            self.check(measurer, untuned)
        if measurer.times:
            measurer.measure(candidates)
            confirmed = measurer.confirm(candidates[:2])
            assert [one.candidate for one in confirmed] == candidates[:2]
            for measurement in confirmed:
                self.check(measurer, measurement)
        assert measurer.runtime_threads >= 0
        measurer.close()
        measurer.close()

    def check(self, measurer: Measurer, measurement: Measurement) -> None:
        """What every measurement must be like."""
        assert measurement.build_s >= 0
        assert measurement.run_s >= 0
        if measurement.failure is not None:
            assert measurement.failure in FAILURES
            assert measurement.latency_s is None, "what failed has no latency"
            assert measurement.message, "a failure needs a message"
            assert "\n" not in measurement.message, "a message is one line"
        elif measurer.times:
            assert measurement.latency_s is not None, "timed, and neither latency nor failure"
            assert np.isfinite(measurement.latency_s)
            assert measurement.latency_s > 0, "a latency is in seconds, above 0"
            assert measurement.spread_s is None or measurement.spread_s >= 0
        else:
            assert measurement.latency_s is None, "times is False: a measurement has no latency"
            assert measurement.resources is not None, "what is compiled and not timed has resources"
