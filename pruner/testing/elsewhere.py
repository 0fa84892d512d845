"""A second process that does the same: whoever depends on Python's hash seed is found out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from typing import Any, TypeVar

import cloudpickle

_Result = TypeVar("_Result")


def elsewhere(function: Callable[..., _Result], *arguments: object, module: str) -> _Result:
    """`function(*arguments)` in another process. What the test module called `module` defines travels by
    value, since the other process cannot always import it."""
    owner = sys.modules[module]
    cloudpickle.register_pickle_by_value(owner)
    try:
        parcel = cloudpickle.dumps((function, arguments))
    finally:
        cloudpickle.unregister_pickle_by_value(owner)
    result: _Result = _process().submit(_call, parcel).result()
    return result


def _call(parcel: bytes) -> Any:
    function, arguments = cloudpickle.loads(parcel)
    return function(*arguments)


@lru_cache(maxsize=1)
def _process() -> ProcessPoolExecutor:
    """One process for all suites, with a hash seed of its own; it ends with this one."""
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "2" if before == "1" else "1"
    try:
        pool.submit(int).result()
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before
    return pool
