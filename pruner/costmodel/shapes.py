"""Which features a model has seen: name, version and width of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch

Shape = tuple[str, int, int]


def shapes_of(batches: Iterable[FeatureBatch]) -> list[Shape]:
    """Of these batches, in order."""
    return [(batch.name, batch.version, batch.values.shape[1]) for batch in batches]


def check_shapes(seen: Sequence[Shape], given: Sequence[Shape]) -> None:
    """Raises ConfigError unless a model that has seen the first is given the same."""
    if list(seen) != list(given):
        raise ConfigError(
            f"the verifier was fitted on {_described(seen)}, not on {_described(given)}: "
            "fit it again or choose the checkpoint of this release"
        )


def _described(shapes: Sequence[Shape]) -> str:
    return ", ".join(f"{name} version {version} of {width} columns" for name, version, width in shapes)
