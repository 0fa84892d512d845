"""What this package must know about the TVM it stands on: which releases work, and how to start it fast."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import metadata
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pruner.errors import PrunerError

if TYPE_CHECKING:
    from tvm.s_tir.meta_schedule import TuneContext
    from tvm.target import Target

# The releases that are tested. Beside apache-tvm 0.27, apache-tvm-ffi 0.1.15.post1 and 0.1.15.post2 end in
# a segmentation fault when a TuneContext is made; earlier ones than 0.1.14 are refused by apache-tvm itself.
_TVM_SERIES = "0.27."
_FFI_SERIES = "0.1.14."
_FIX = "pip install 'apache-tvm==0.27.0.post1' 'apache-tvm-ffi==0.1.14.post1'"

_INTRINSICS = "tvm.s_tir.tensor_intrin"
# Its modules, by the machine whose rules use them.
_OF_CPUS = {"x86_64": "x86", "aarch64": "arm_cpu", "riscv64": "riscv_cpu"}
_lock = threading.Lock()


class IncompatibleTVMError(PrunerError, ImportError):
    """TVM is missing, or a release is installed that this package cannot run beside."""


def check_versions() -> None:
    """Refuses a TVM that would crash, by its installed metadata alone. Raises IncompatibleTVMError."""
    for distribution, series in (("apache-tvm", _TVM_SERIES), ("apache-tvm-ffi", _FFI_SERIES)):
        try:
            version = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            raise IncompatibleTVMError(
                f"{distribution} is not installed; {series}* is needed. Run: {_FIX}"
            ) from None
        if not f"{version}.".startswith(series):
            raise IncompatibleTVMError(
                f"{distribution} {version} is installed; {series}* is needed, other releases are known to "
                f"crash the process or have another interface. Run: {_FIX}"
            )


@contextmanager
def _memoised_getmodule() -> Iterator[None]:
    """`inspect.getmodule` remembers its answer by file name while the context is open."""
    original = inspect.getmodule
    known: dict[str, ModuleType | None] = {}

    def getmodule(object: object, _filename: str | None = None) -> ModuleType | None:
        try:
            filename = _filename or inspect.getsourcefile(object)  # type: ignore[arg-type]  # as getmodule does
        except TypeError:
            filename = None
        if filename is None:
            return original(object, _filename)
        if filename not in known:
            known[filename] = original(object, _filename)
        return known[filename]

    inspect.getmodule = getmodule
    try:
        yield
    finally:
        inspect.getmodule = original


@contextmanager
def _unexecuted(package: str) -> Iterator[None]:
    """The package can be imported from while the context is open, but what it imports itself is not: parts of
    it can be imported alone, and who imports it gets nothing more. Afterwards it is as if never imported."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    sys.modules[package] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules[package]


def fast_intrinsics(target: Target | None = None) -> None:
    """Makes the tensor intrinsics that TVM's rules use for a target, None = for all, many times faster than
    importing TVM's package of them does, which every TuneContext imports. Safe to call again.

    Parsing an intrinsic asks `inspect.getmodule` for the same few files tens of thousands of times, and
    each time it walks through all loaded modules; here it is asked once a file. And nearly all
    of what then remains are the intrinsics of other devices, which a CPU can do without.
    """
    with _lock:
        if _INTRINSICS in sys.modules:
            return
        with _memoised_getmodule():
            module = _module_of(target)
            if module is None:
                importlib.import_module(_INTRINSICS)
                return
            with _unexecuted(_INTRINSICS):
                importlib.import_module(f"{_INTRINSICS}.{module}")


def _module_of(target: Target | None) -> str | None:
    """Which module of the intrinsics has all that rules use for the target; None = no one has."""
    if target is None or target.kind.name != "llvm":
        return None
    from pruner.target import machine  # it needs TVM

    return _OF_CPUS.get(machine(target))


def tune_context(target: Target, **settings: Any) -> TuneContext:
    """`TuneContext(target=target, **settings)`, with the intrinsics of this target alone."""
    from tvm.s_tir.meta_schedule import TuneContext

    fast_intrinsics(target)
    with _lock, nullcontext() if _INTRINSICS in sys.modules else _unexecuted(_INTRINSICS):
        return TuneContext(target=target, **settings)


def import_tvm() -> None:
    """Imports TVM in a third of the time it takes where PyTorch is installed: its FFI imports PyTorch first,
    for conversions of tensors that a process of this package's own does without. PyTorch can be imported
    afterwards."""
    if "torch" in sys.modules:
        importlib.import_module("tvm")
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # how Python says that there is no such module
    try:
        importlib.import_module("tvm")
    finally:
        del sys.modules["torch"]
