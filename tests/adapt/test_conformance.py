"""Our adaptation rules against the suite that others run on theirs."""

import pytest

from pruner.adapt.rule import Frozen, Scratch
from pruner.testing import AdaptationSuite


class TestRules(AdaptationSuite):
    @pytest.fixture(params=[Scratch, Frozen])
    def make(self, request):
        return request.param
