"""What the suites have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.costmodel.verifier import TrainingSet
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch
from pruner.search.population import Population
from pruner.testing.elsewhere import elsewhere


class Suite:
    """Override `make`: it returns what a run would call to have a new component, the class itself or a
    `functools.partial` of it with settings. `device` may be overridden too."""

    @pytest.fixture
    def make(self) -> Callable[..., Any]:
        raise NotImplementedError(
            f"{type(self).__name__} has no component: override the fixture `make`, which returns your class "
            "or functools.partial(YourClass, setting=value)"
        )

    @pytest.fixture
    def device(self) -> Device:
        """What the component is for; a declared CPU."""
        return Device.load("x86-64")

    def elsewhere(self, function: Callable[..., Any], *arguments: object) -> Any:
        """`function(*arguments)` in another process."""
        return elsewhere(function, *arguments, module=type(self).__module__)


@contextmanager
def refused(otherwise: str) -> Iterator[None]:
    """Around what must raise a ConfigError; `otherwise` is said when nothing is raised."""
    try:
        yield
    except ConfigError:
        return
    pytest.fail(otherwise)


def unchanged(*given: TrainingSet | FeatureBatch | Population) -> Callable[[], bool]:
    """Asked later: whether the arrays of what is given still are as they were."""
    arrays = [array for one in given for array in _arrays(one)]
    before = [array.copy() for array in arrays]
    return lambda: all(
        np.array_equal(old, new, equal_nan=new.dtype.kind == "f")
        for old, new in zip(before, arrays, strict=True)
    )


def equal_batches(first: FeatureBatch, second: FeatureBatch) -> bool:
    return np.array_equal(first.offsets, second.offsets) and np.array_equal(
        first.values, second.values, equal_nan=True
    )


def _arrays(given: TrainingSet | FeatureBatch | Population) -> list[NDArray[Any]]:
    if isinstance(given, FeatureBatch):
        return [given.values, given.offsets]
    if isinstance(given, Population):
        return [given.sketch_ids, given.decisions]
    batches = [array for batch in given.features.values() for array in _arrays(batch)]
    return [given.labels, given.group, given.order, *batches]
