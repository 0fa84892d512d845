"""Our search strategies against the suite that others run on theirs."""

from functools import partial

import pytest

from pruner.search.latent import LatentSearch
from pruner.search.metaschedule import MetaScheduleSearch
from pruner.search.random import RandomSearch
from pruner.testing import StrategySuite


class TestStrategies(StrategySuite):
    @pytest.fixture(params=[LatentSearch, partial(LatentSearch, fitness="verifier"), RandomSearch])
    def make(self, request):
        return request.param


@pytest.mark.slow
class TestMetaSchedule(StrategySuite):
    exhausts = False
    seeded = False  # TVM's threads share one random state

    @pytest.fixture
    def make(self):
        return MetaScheduleSearch
