"""Our verifiers, as the settings make them, against the suite that others run on theirs."""

from functools import partial

import pytest
from omegaconf import OmegaConf

from pruner.analyzer.device import Device
from pruner.config import compose, groups, instantiate
from pruner.costmodel.gap import GapVerifier
from pruner.costmodel.neural import TenSetMLPVerifier
from pruner.costmodel.xgb import XGBVerifier
from pruner.testing import VerifierSuite, tiny

# Every fit of these takes seconds.
HEAVY = ("pacm", "pacm_paper", "tlp")
LEARNING = sorted({*groups()["verifier"]} - {"custom", "random"})


def made(name, **settings):
    chosen = compose(["workload=GMM/0", f"verifier={name}"]).verifier
    return instantiate(OmegaConf.merge(chosen, settings), seed=0)


class TestVerifiers(VerifierSuite):
    @pytest.fixture(
        params=[pytest.param(name, marks=[pytest.mark.slow] * (name in HEAVY)) for name in LEARNING]
    )
    def make(self, request):
        return partial(made, request.param)


class TestXGBOfStatements(VerifierSuite):
    @pytest.fixture(params=["statement", "statement_fast"])
    def make(self, request):
        return partial(made, "xgb", features=request.param)


def gap(base):
    return GapVerifier(base=tiny.taught(base(), Device.load("x86-64")))


class TestGap(VerifierSuite):
    pretrained = True

    @pytest.fixture(params=[partial(XGBVerifier, trees=10), partial(TenSetMLPVerifier, epochs=2)])
    def make(self, request):
        return partial(gap, request.param)


class TestRandom(VerifierSuite):
    learns = False

    @pytest.fixture
    def make(self):
        return partial(made, "random")
