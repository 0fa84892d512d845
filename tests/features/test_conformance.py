"""Our feature extractors against the suite that others run on theirs."""

import pytest

from pruner.analyzer.device import Device
from pruner.features.make import EXTRACTORS
from pruner.testing import FeatureSuite


class TestOnCpu(FeatureSuite):
    @pytest.fixture(params=sorted(EXTRACTORS))
    def make(self, request):
        return EXTRACTORS[request.param]


class TestOnGpu(TestOnCpu):
    @pytest.fixture
    def device(self):
        return Device.load("a100-40g")
