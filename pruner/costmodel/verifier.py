"""The contract of verifiers: learned models that rank drafted candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch


@dataclass(frozen=True)
class TrainingSet:
    """Measured candidates. Raises ConfigError for features that are NaN or infinite.

    features: one batch of n candidates per feature name.
    labels: float64[n], best latency of the task / latency; 0 for a failure.
    group: int64[n], the task of each; ranking compares within a group only.
    order: int64[n], position in which they were measured.
    """

    features: Mapping[str, FeatureBatch]
    labels: NDArray[np.float64]
    group: NDArray[np.int64]
    order: NDArray[np.int64]

    def __post_init__(self) -> None:
        for batch in self.features.values():
            batch.check_finite()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def tells_apart(self) -> bool:
        """Whether some task has two candidates with different labels; without, nothing can be learnt."""
        return any(np.ptp(self.labels[self.group == task]) > 0 for task in np.unique(self.group))


class Verifier(ABC):
    """Predicts which candidates are fast. Until `fitted`, the draft's order stands in for it."""

    features: tuple[str, ...] = ()
    fitted: bool = False

    @abstractmethod
    def fit(self, training_set: TrainingSet) -> None:
        """Learns from scratch."""

    def refine(self, training_set: TrainingSet, *, epochs: int | None = None) -> None:
        """Learns further from what it knows (fine-tuning); one that is not fitted is fitted.

        Args:
            epochs: of a network, passes over the records at most; of boosted trees, further trees; None = as
                many as suit the verifier.

        Raises ConfigError for a verifier that has no `refine` of its own, and for features of another version
        or shape than it knows.
        """
        check_refines(self)

    @abstractmethod
    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        """A score per candidate, float64[n]; higher is better."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Numbers, arrays and JSON values only."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises ConfigError when the state belongs to another model, feature version or shape."""


def check_refines(verifier: Verifier) -> None:
    """Raises ConfigError for a verifier without a `refine` of its own."""
    if type(verifier).refine is Verifier.refine:
        raise ConfigError(
            f"{type(verifier).__name__} cannot be fine-tuned: it has no `refine`. Write it, or choose "
            "adapt=scratch or adapt=frozen."
        )


def check_model(state: Mapping[str, Any], model: str) -> None:
    """Raises ConfigError unless the state was made by the named kind of model."""
    if state.get("model") != model:
        given = state.get("model", "no known model")
        raise ConfigError(
            f"the checkpoint holds {given}; this verifier accepts {model}: choose a checkpoint of {model}, "
            f"or the verifier that this one is of (verifier={given}, where it is one of ours)"
        )


def check_given(features: Mapping[str, FeatureBatch], names: Sequence[str]) -> None:
    """Raises ConfigError unless there is a batch of every name."""
    if missing := [name for name in names if name not in features]:
        given = ", ".join(features) or "none"
        raise ConfigError(
            f"the verifier sees {', '.join(names)}, and there is no batch of {', '.join(missing)} (given: "
            f"{given}): give one of each that its `features` names."
        )


def layout(features: Mapping[str, FeatureBatch], names: Sequence[str]) -> list[list[Any]]:
    """`[name, version, columns]` of the named features: what a state keeps of what its model has seen. Raises
    ConfigError when one is not given."""
    check_given(features, names)
    return [[name, features[name].version, features[name].values.shape[1]] for name in names]


def check_layout(seen: Sequence[Sequence[Any]], features: Mapping[str, FeatureBatch]) -> None:
    """Raises ConfigError unless the features are as `seen`, a `layout`, has them, and finite; `seen` is empty
    until something was fitted."""
    if not seen:
        raise ConfigError(
            "the verifier has not been fitted: fit it, or load a checkpoint, before it predicts"
        )
    given = layout(features, [name for name, *_ in seen])
    if [list(one) for one in seen] != given:
        raise ConfigError(
            f"the verifier was fitted on {_described(seen)}, not on {_described(given)}: fit it again or "
            "choose the checkpoint of this release"
        )
    for name, *_ in seen:
        features[name].check_finite()


def _described(seen: Sequence[Sequence[Any]]) -> str:
    return ", ".join(f"{name} version {version} of {width} columns" for name, version, width in seen)
