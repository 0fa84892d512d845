"""Our measurers against the suite that others run on theirs."""

from functools import partial

import pytest

from pruner.analyzer.device import Device
from pruner.errors import RejectedError
from pruner.measure.compile import CompileMeasurer
from pruner.measure.local import LocalMeasurer
from pruner.testing import MeasurerSuite
from pruner.testing.dummy import DummyMeasurer


def refused(candidate):
    try:
        candidate.materialise()
    except RejectedError:
        return "build"
    return None


class TestDummy(MeasurerSuite):
    @pytest.fixture
    def make(self):
        return lambda task, threads: DummyMeasurer(latency=lambda _: 1e-3, failure=refused, baseline_s=1e-2)


class TestLocal(MeasurerSuite):
    @pytest.fixture
    def make(self):
        return partial(LocalMeasurer, workers=1)


@pytest.mark.slow
class TestCompile(MeasurerSuite):
    @pytest.fixture
    def make(self, nvcc):
        return CompileMeasurer

    @pytest.fixture
    def device(self):
        return Device.load("a100-40g")
