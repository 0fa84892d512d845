"""The suites find faults: every faulty component fails the tests that it should, and says why."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.faulty import FAULTS

# A blind fault fails other tests as well; a component that is right in all but one respect fails few.
MOST = 12


@pytest.fixture(scope="module")
def failed():
    """The failed tests of every faulty component's class."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "tests/testing/faulty.py",
            "-rf",
            "--tb=no",
            "-p",
            "no:cacheprovider",
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = {name: set() for name in FAULTS}
    for name, test in re.findall(r"FAILED \S+::(Test\w+)::(\w+)", done.stdout):
        found[name].add(test)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(failed, name):
    assert failed[name] >= FAULTS[name]
    assert len(failed[name]) <= MOST


def test_without_pytest_the_need_is_told():
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from pruner.testing.dummy import DummyMeasurer\n"
        "from pruner.errors import ConfigError\n"
        "try:\n    from pruner.testing import VerifierSuite\n"
        "except ConfigError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert "VerifierSuite is a pytest class: pip install pytest" in done.stdout, done.stderr
