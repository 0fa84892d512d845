"""The versions that a measurement depends on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from pruner.errors import DeviceError

# What we call it, and the distributions that may provide it.
_DISTRIBUTIONS = {
    "tvm": ("apache-tvm",),
    "tvm-ffi": ("apache-tvm-ffi",),
    "xgboost": ("xgboost-cpu", "xgboost"),
    "torch": ("torch",),
    "numpy": ("numpy",),
}


def versions(target_kind: str = "llvm") -> dict[str, str]:
    """Versions of pruner, Python, TVM, its FFI and LLVM, XGBoost, PyTorch and numpy, and of nvcc for a cuda
    target; what is not there is 'none'."""
    from tvm.target import codegen

    from pruner import __version__

    found = {"pruner": __version__, "python": platform.python_version()}
    for name, distributions in _DISTRIBUTIONS.items():
        found[name] = next((v for v in map(_version, distributions) if v), "none")
    found["llvm"] = str(codegen.llvm_version_major())
    if target_kind == "cuda":
        found["nvcc"] = _nvcc_version()
    return found


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _nvcc_version() -> str:
    from pruner.measure import nvcc

    try:
        return nvcc.version()
    except DeviceError:
        return "none"
