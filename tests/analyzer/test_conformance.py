"""Our draft models against the suite that others run on theirs."""

import pytest

from pruner.analyzer.device import Device
from pruner.analyzer.draft import NoDraft
from pruner.analyzer.psa import PsaDraft
from pruner.analyzer.roofline import RooflineDraft
from pruner.analyzer.symbol import SymbolDraft
from pruner.testing import DraftSuite


class TestOnCpu(DraftSuite):
    @pytest.fixture(params=[RooflineDraft, SymbolDraft, NoDraft])
    def make(self, request):
        return request.param


class TestOnGpu(DraftSuite):
    @pytest.fixture(params=[RooflineDraft, SymbolDraft, PsaDraft, NoDraft])
    def make(self, request):
        return request.param

    @pytest.fixture
    def device(self):
        return Device.load("a100-40g")
