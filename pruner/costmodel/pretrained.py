"""Verifiers from their checkpoints: made from the file alone, or loaded into one that there is."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from pruner.analyzer.device import Device, declared
from pruner.costmodel.checkpoint import load_checkpoint
from pruner.costmodel.shipped import RELEASED, find_checkpoint
from pruner.costmodel.verifier import Verifier
from pruner.errors import ConfigError
from pruner.features.make import EXTRACTORS
from pruner.settings import check_types

# The models that a header may name: a file chooses among these and brings no code.
_MODELS = {
    "pacm": ("pruner.costmodel.neural", "PaCMVerifier"),
    "tenset_mlp": ("pruner.costmodel.neural", "TenSetMLPVerifier"),
    "tlp": ("pruner.costmodel.neural", "TLPVerifier"),
    "xgb": ("pruner.costmodel.xgb", "XGBVerifier"),
}
# Settings that say how it is run, which is for whoever loads it; a file decides on no thread, device or path.
_OF_A_RUN = ("device", "threads", "resume", "fit_seconds")


def load_verifier(path: str | os.PathLike[str]) -> tuple[Verifier, dict[str, Any]]:
    """The verifier that a checkpoint's header describes, with its state, and the header's `made`, of which
    `verifier` holds the settings.

    Raises ConfigError, naming the file, for one that cannot be read, for a model of another package, for
    settings or a state that do not suit the model, and for features of another version than this release's.
    """
    state, made = load_checkpoint(path)
    with _named(path, state):
        verifier = _made(state.get("model"), made.get("verifier"))
        verifier.load_state_dict(state)
        _check_features(state["seen"])
    return verifier, made


def load_into(verifier: Verifier, name_or_path: str | os.PathLike[str]) -> None:
    """Gives a verifier the state of a checkpoint: one of this tool, or the weights that Pruner's authors
    released (`.pth`), which suit `pacm` with form=code, prior=0 and normaliser=maximum.

    Raises ConfigError, naming the file, for one that is not there or cannot be read, for a state of another
    model, of other features or of settings that score otherwise, and for features of another version than
    this release's.
    """
    path = find_checkpoint(name_or_path)
    if path.suffix == RELEASED:
        # A module that needs PyTorch.
        state: dict[str, Any] = import_module("pruner.costmodel.released").released_state(path)
    else:
        state, _ = load_checkpoint(path)
    with _named(path, state):
        verifier.load_state_dict(state)
        _check_features(state.get("seen", []))


def check_kind(name_or_path: str | os.PathLike[str], device: Device) -> None:
    """Raises ConfigError for a checkpoint that tells that it is from another kind of device: their programs
    have numbers of other meanings under the same names."""
    path = find_checkpoint(name_or_path)
    kind = "gpu"
    if path.suffix != RELEASED:
        trained_on = load_checkpoint(path)[1].get("device")
        if trained_on not in declared():
            return
        kind = Device.load(trained_on).kind
    if kind != device.kind:
        raise ConfigError(
            f"adapt.checkpoint={name_or_path} was trained on programs of a {kind}, and device {device.name} "
            f"is a {device.kind}: give a checkpoint from a {device.kind}."
        )


@contextmanager
def _named(path: str | os.PathLike[str], state: Mapping[str, Any]) -> Iterator[None]:
    """Around the loading of a state: what is raised names the file that it is from."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{os.fspath(path)}: {error}") from error
    except Exception as error:  # of a state that others have written, anything
        raise ConfigError(
            f"{os.fspath(path)}: the state is none of a {state.get('model')} ({error!r}): choose another "
            "checkpoint."
        ) from error


def _made(model: object, settings: object) -> Verifier:
    if model not in _MODELS:
        raise ConfigError(
            f"it holds {model or 'no known model'}; {', '.join(_MODELS)} can be made from a header. Make the "
            "verifier yourself, and give it the state with load_state_dict."
        )
    if not isinstance(settings, Mapping):
        raise ConfigError("its header has no settings of the verifier: make it with experiments.pretrain.")
    module, name = _MODELS[str(model)]
    kind = getattr(import_module(module), name)
    settings = {key: value for key, value in settings.items() if key not in _OF_A_RUN}
    try:
        inspect.signature(kind).bind(**settings)
    except TypeError as error:
        raise ConfigError(
            f"its settings are not those of {model} ({error}): make it again with this release."
        ) from error
    check_types(kind, settings)
    verifier = kind(**settings)
    assert isinstance(verifier, Verifier)
    return verifier


def _check_features(seen: object) -> None:
    """Raises ConfigError for the first feature, `[name, version, columns]`, that this release has otherwise;
    `seen` is empty when nothing was fitted."""
    assert isinstance(seen, list)
    for name, version, columns in seen:
        ours = EXTRACTORS.get(name)
        own = (getattr(ours, "version", version), len(getattr(ours, "columns", range(columns))))
        if own != (version, columns):
            raise ConfigError(
                f"it was fitted on {name} version {version} of {columns} columns; this release has version "
                f"{own[0]} of {own[1]}. Make it again with this release."
            )
