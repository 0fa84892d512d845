"""What this package must know about the TVM it stands on: which releases work, and how to start it fast."""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from types import ModuleType

from pruner.errors import PrunerError

# The releases that are tested. Beside apache-tvm 0.27, apache-tvm-ffi 0.1.15.post1 and 0.1.15.post2 end in
# a segmentation fault when a TuneContext is made; earlier ones than 0.1.14 are refused by apache-tvm itself.
_TVM_SERIES = "0.27."
_FFI_SERIES = "0.1.14."
_FIX = "pip install 'apache-tvm==0.27.0.post1' 'apache-tvm-ffi==0.1.14.post1'"

_INTRINSICS = "tvm.s_tir.tensor_intrin"
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


def fast_intrinsics() -> None:
    """Imports TVM's tensor intrinsics, which every TuneContext needs, some ten times faster than TVM does.

    Parsing an intrinsic asks `inspect.getmodule` for the same few files tens of thousands of times, and
    each time it walks through all loaded modules; here it is asked once a file. Safe to call again.
    """
    with _lock:
        if _INTRINSICS not in sys.modules:
            with _memoised_getmodule():
                importlib.import_module(_INTRINSICS)
