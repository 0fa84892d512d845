"""What a file of JSON and arrays gives back: the way every `state_dict` must survive."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError

_ARRAY = "array of the archive"


def through_a_file(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state, written and read without pickles. Raises ConfigError, naming the entry, for a value that is
    neither JSON nor an array of numbers."""
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_without(state, arrays, "state"))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as archive:
        restored: dict[str, Any] = _with(json.loads(text), dict(archive))
    return restored


def _without(value: Any, arrays: dict[str, NDArray[Any]], path: str) -> Any:
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ConfigError(f"{path} has keys that are no text: JSON would change them")
        return {key: _without(one, arrays, f"{path}[{key!r}]") for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without(one, arrays, f"{path}[{i}]") for i, one in enumerate(value)]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        arrays[str(len(arrays))] = value
        return {_ARRAY: str(len(arrays) - 1)}
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    raise ConfigError(
        f"{path} is a {type(value).__name__}: accepted are JSON values and NumPy arrays of numbers, because "
        "checkpoints are never pickled"
    )


def _with(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key: _with(one, arrays) for key, one in value.items()}
    return [_with(one, arrays) for one in value] if isinstance(value, list) else value
