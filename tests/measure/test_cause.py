"""Root causes, from texts that TVM and LLVM wrote."""

from __future__ import annotations

import pytest

from pruner.measure.cause import root_cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", ""),
        ("one line", "one line"),
        (
            "\nnote\nInternalError: Check failed: n > 0 (0 vs. 0) : empty\n  at pass\n",
            "InternalError: Check failed: n > 0 (0 vs. 0) : empty",
        ),
        (
            "LLVM module verification failed with the following errors:\n"
            "Call parameter type does not match function signature!\n  %56 = bitcast\n <64 x i8>",
            "LLVM module verification failed with the following errors: "
            "Call parameter type does not match function signature!",
        ),
        (
            "LLVM ERROR: Cannot select: intrinsic\nPLEASE submit a bug report",
            "LLVM ERROR: Cannot select: intrinsic",
        ),
    ],
)
def test_root_cause(text, cause):
    assert root_cause(text) == cause


def test_it_is_short():
    assert len(root_cause("x" * 5000)) == 300


def test_it_does_not_steer_a_terminal():
    assert root_cause("error: \x1b[2J\x07 a\tb é") == "error: ?[2J? a?b é"
