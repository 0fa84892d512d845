"""What tests of several folders need."""

import pytest

import pruner
from pruner.analyzer.device import Device
from pruner.errors import DeviceError
from pruner.measure.nvcc import find_nvcc
from pruner.testing.dummy import DummyMeasurer
from tests.run_util import latency, matmul


@pytest.fixture(scope="session")
def nvcc():
    """The path of nvcc; a test that asks for it is skipped where there is none."""
    try:
        return find_nvcc()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def go(tmp_path):
    """Runs the loop, on a dummy device if nothing else is said."""
    device = Device.load("x86-64")

    def run(measurer=None, mod=None, **settings):
        measurer = measurer or DummyMeasurer(latency=latency, baseline_s=1e-3)
        settings = {"trials": 12, "batch": 5, "work_dir": tmp_path / "run", "device": device, **settings}
        return pruner.tune(mod or matmul(), measurer=measurer, **settings)

    return run
