"""What tests of several folders need."""

import pytest

from pruner.errors import DeviceError
from pruner.measure.nvcc import find_nvcc


@pytest.fixture(scope="session")
def nvcc():
    """The path of nvcc; a test that asks for it is skipped where there is none."""
    try:
        return find_nvcc()
    except DeviceError as error:
        pytest.skip(str(error))
