"""Our adaptation rules against the suite that others run on theirs."""

from functools import partial

import pytest

from pruner.adapt.finetune import FineTune
from pruner.adapt.gap import GapModel
from pruner.adapt.momentum import Momentum
from pruner.adapt.rule import Frozen, Scratch
from pruner.costmodel.neural import PaCMVerifier
from pruner.testing import AdaptationSuite


class TestOfTrees(AdaptationSuite):
    @pytest.fixture(params=[Scratch, Frozen, partial(FineTune, epochs=5), partial(GapModel, epochs=5)])
    def make(self, request):
        return request.param


class TestOfNetworks(AdaptationSuite):
    """One with BatchNorm, whose statistics are no weights."""

    @pytest.fixture(
        params=[
            Frozen,
            partial(FineTune, epochs=3, every=2),
            partial(GapModel, epochs=3),
            partial(Momentum, epochs=3),
            partial(Momentum, epochs=3, every=2, buffers=True),
        ]
    )
    def make(self, request):
        return request.param

    @pytest.fixture
    def make_verifier(self):
        return partial(PaCMVerifier, dataflow=False, epochs=3)
