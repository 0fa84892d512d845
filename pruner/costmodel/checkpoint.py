"""Checkpoints: a verifier's state in one safetensors file, tensors and JSON, nothing that is executed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pruner.errors import ConfigError
from pruner.files import draft_of

FORMAT = 1
_TENSOR = "tensor"  # what stands for an array in the JSON: {"tensor": NAME}


def save_checkpoint(path: str | os.PathLike[str], state: Mapping[str, Any], made: Mapping[str, Any]) -> None:
    """Writes a verifier's state; the file appears whole or not at all.

    Args:
        state: of `Verifier.state_dict`. made: where it comes from, JSON values: data, tasks, metrics.
    """
    if not isinstance(state, Mapping):
        raise ConfigError(f"the state is a {type(state).__name__}: `state_dict` must give a dict.")
    tensors: dict[str, NDArray[Any]] = {}
    header = {"format": FORMAT, "state": _without(state, "", tensors), "made": dict(made)}
    target = Path(path)
    try:
        with draft_of(target) as draft:
            draft.write_bytes(save(tensors, {"pruner": json.dumps(header, allow_nan=False)}))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Choose another place.") from error


def load_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state, for `Verifier.load_state_dict`, and where it comes from. Raises ConfigError for a file that
    is cut short, of another kind or of another format."""
    try:
        with Path(path).open("rb") as opened:
            # A safetensors file has the length of its JSON first, and then the JSON.
            if opened.read(9)[8:] not in (b"{", b""):
                raise ConfigError(f"{path} is no checkpoint: give a .safetensors file of this tool.")
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("pruner")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # no mapping
    except OSError as error:
        raise ConfigError(f"{path} is no checkpoint that can be read ({error.strerror or error}).") from error
    except SafetensorError as error:
        raise ConfigError(
            f"{path} is no checkpoint any more: it is cut short ({error}). Copy it again."
        ) from error
    except (AttributeError, TypeError) as error:  # of tensors in a type that NumPy has not
        raise ConfigError(
            f"{path} is no checkpoint of this tool ({error}): give one that it has written."
        ) from error
    try:
        header = json.loads(text or "")
        if header["format"] != FORMAT:
            raise ConfigError(
                f"{path} has format {header['format']}, not {FORMAT}: make it again with this release."
            )
        state = _with(header["state"], tensors)
        return dict(state), dict(header["made"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path} is no checkpoint of this tool ({error!r}).") from error


def _without(value: Any, name: str, tensors: dict[str, NDArray[Any]]) -> Any:
    """The value with arrays replaced by their names. Raises ConfigError, naming the entry, for what is
    neither JSON nor an array of numbers."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[name] = np.asarray(value, order="C")  # ascontiguousarray makes a number a vector
        return {_TENSOR: name}
    if isinstance(value, Mapping):
        # A slash would make two names one, and a lone `tensor` is what stands for an array.
        if not all(isinstance(key, str) and "/" not in key for key in value) or set(value) == {_TENSOR}:
            raise ConfigError(
                f"state{name} has the keys {', '.join(map(str, value))}: accepted are texts without a slash, "
                f"and others than {_TENSOR} alone."
            )
        return {key: _without(item, f"{name}/{key}", tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without(item, f"{name}/{i}", tensors) for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"state{name} is {value}: accepted are finite numbers.")
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    raise ConfigError(
        f"state{name} is a {type(value).__name__}: accepted are JSON values and NumPy arrays of numbers, "
        "because checkpoints are never pickled."
    )


def _with(value: Any, tensors: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_TENSOR}:
            return tensors[value[_TENSOR]]
        return {key: _with(item, tensors) for key, item in value.items()}
    return [_with(item, tensors) for item in value] if isinstance(value, list) else value
