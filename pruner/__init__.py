"""Draft-then-verify tuning of tensor programs on Apache TVM.

`pruner.tune(module, target=..., trials=...)` tunes one operator; the command `pruner tune` does the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pruner._tvm import check_versions

if TYPE_CHECKING:
    from pruner.result import TuneResult
    from pruner.tune import tune

__version__ = "0.1.0"
__all__ = ["TuneResult", "__version__", "tune"]

# TVM beside the wrong foreign function interface dies by a signal, so this must come before it is imported.
check_versions()


def __getattr__(name: str) -> Any:
    """Imports the tuner, and TVM with it, only when it is asked for.

    `tune` is the submodule, which can be called: Python binds an imported submodule to its name here, so
    a function of that name would be hidden by it.
    """
    if name == "tune":
        return import_module("pruner.tune")
    if name == "TuneResult":
        return import_module("pruner.result").TuneResult
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
