"""Feature extractors by the name a verifier gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module

from pruner.analyzer.device import Device
from pruner.errors import ConfigError
from pruner.features.batch import FeatureExtractor
from pruner.features.cache import CachedExtractor
from pruner.features.dataflow import DataflowCodeFeatures, DataflowFeatures
from pruner.features.primitives import PrimitiveFeatures
from pruner.features.statement import StatementFeatures
from pruner.features.statement_fast import StatementFastFeatures
from pruner.features.statement_tagged import TaggedStatementFeatures
from pruner.features.symbols import SymbolFeatures

# A verifier and its checkpoints name their features. One of your own is named by its class,
# `package.module.Class`, and is made with `device=`.
EXTRACTORS: dict[str, Callable[..., FeatureExtractor]] = {
    DataflowFeatures.name: DataflowFeatures,
    DataflowCodeFeatures.name: DataflowCodeFeatures,
    PrimitiveFeatures.name: PrimitiveFeatures,
    StatementFeatures.name: StatementFeatures,
    StatementFastFeatures.name: StatementFastFeatures,
    TaggedStatementFeatures.name: TaggedStatementFeatures,
    SymbolFeatures.name: SymbolFeatures,
}

_folder: ContextVar[str | os.PathLike[str] | None] = ContextVar("pruner_features", default=None)


def make_extractors(names: Sequence[str], device: Device) -> dict[str, FeatureExtractor]:
    """The extractors of these names for the device. Raises ConfigError with the names that are accepted."""
    check_names(names)
    made = {name: _make(name, device) for name in names}
    folder = _folder.get()
    if folder is None:
        return made
    # One that does not tell what its numbers depend on cannot be kept.
    return {n: one if one.inputs is None else CachedExtractor(one, folder) for n, one in made.items()}


@contextmanager
def features_kept_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Extractors that are made in the block keep what they find in the folder, see CachedExtractor: for runs
    that meet the same candidates again and again."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def check_names(names: object) -> None:
    """Raises ConfigError unless they are names, one at least, in a tuple or list."""
    if not isinstance(names, (tuple, list)) or not names or not all(isinstance(one, str) for one in names):
        raise ConfigError(
            f"the features of a verifier are {names!r}: give a tuple of names, such as ('symbols',). "
            f"{_ACCEPTED}"
        )


def _make(name: str, device: Device) -> FeatureExtractor:
    if name in EXTRACTORS:
        return EXTRACTORS[name](device=device)
    module, _, attribute = name.rpartition(".")
    try:
        extractor = getattr(import_module(module), attribute)(device=device) if module else None
    except Exception as error:  # what a module of one's own raises while it is imported, too
        raise ConfigError(
            f"the feature {name} cannot be made: {type(error).__name__}: {error}. {_ACCEPTED}"
        ) from error
    if not isinstance(extractor, FeatureExtractor):
        raise ConfigError(f"unknown feature {name}. {_ACCEPTED}")
    return extractor


_ACCEPTED = f"Accepted: {', '.join(sorted(EXTRACTORS))}, or package.module.Class of a FeatureExtractor."
