"""A verifier whose faults do not end a run: they are told once, and the draft's order stands in for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.draft import check_scores
from pruner.costmodel.verifier import TrainingSet, Verifier
from pruner.errors import ConfigError, PrunerError
from pruner.faults import told
from pruner.features.batch import FeatureBatch

_CONSEQUENCE = "The run goes on; a round without a usable verifier follows the draft's order."


class GuardedVerifier(Verifier):
    """What a search is given in place of a verifier.

    A `predict` that raises, or whose scores are not one finite number per candidate, and a step of learning
    that raises, are told to `say`, each kind once. From then until the next step of learning ends well
    `fitted` is false, and a faulty `predict` gives equal scores, which leave every order as it is. Before the
    first step of learning the package's own errors go through: a checkpoint that does not suit the features
    is better told before anything is measured.

    Args:
        verifier: the real one.
        say: takes a note for the user.
    """

    def __init__(self, verifier: Verifier, say: Callable[[str], None]) -> None:
        self._verifier = verifier
        self._say = say
        self._said: set[str] = set()
        self._usable = True
        self._has_learnt = False

    @property
    def features(self) -> tuple[str, ...]:  # type: ignore[override]  # the real one's
        return self._verifier.features

    @property
    def fitted(self) -> bool:  # type: ignore[override]  # the real one's, while it can be used
        return self._usable and bool(self._verifier.fitted)

    def fit(self, training_set: TrainingSet) -> None:
        with self.learning(f"fit on {described(training_set)},"):
            self._verifier.fit(training_set)

    def refine(self, training_set: TrainingSet, *, epochs: int | None = None) -> None:
        with self.learning(f"refine on {described(training_set)},"):
            self._verifier.refine(training_set, epochs=epochs)

    def predict(self, features: Mapping[str, FeatureBatch]) -> NDArray[np.float64]:
        n = len(next(iter(features.values())))
        try:
            given = self._verifier.predict(features)
        except Exception as error:
            if isinstance(error, PrunerError) and not self._has_learnt:
                raise
            self._fails(f"predict raised {told(error, type(self._verifier))}.")
            return np.zeros(n)
        try:
            return verifier_scores(given, n, self._verifier)
        except ConfigError as error:
            self._fails(str(error).partition(": ")[2])
            return np.zeros(n)

    @contextmanager
    def learning(self, what: str) -> Iterator[None]:
        """Around one step of learning, which `what` names."""
        self._has_learnt = True
        try:
            yield
        except Exception as error:
            self._fails(f"{what} raised {told(error, type(self._verifier))}.")
            return
        self._usable = True

    def learns_nothing(self) -> None:
        """In place of a step of learning, where a rule never learns."""
        self._has_learnt = self._usable = True

    def expect_fitted(self, training_set: TrainingSet) -> None:
        """Tells, once, that the verifier says it has not been fitted, though there was something to learn."""
        if self._usable and not self._verifier.fitted and training_set.tells_apart:
            self._tell(
                f"it is not `fitted` after learning from {described(training_set)}. The draft's order "
                "stands until it is: a `fit` that has learnt something sets self.fitted = True."
            )

    def state_dict(self) -> dict[str, Any]:
        return self._verifier.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._verifier.load_state_dict(state)

    def _fails(self, text: str) -> None:
        self._usable = False
        self._tell(f"{text} {_CONSEQUENCE}")

    def _tell(self, text: str) -> None:
        kind = re.sub(r"\d+", "", text)  # the next round has other numbers
        if kind not in self._said:
            self._said.add(kind)
            self._say(f"verifier {type(self._verifier).__name__}: {text}")


def verifier_scores(given: object, n: int, verifier: Verifier) -> NDArray[np.float64]:
    """What `predict` gave as float64[n]. Raises ConfigError unless it is one finite number per candidate."""
    who = f"verifier {type(verifier).__name__}: predict"
    try:
        scores = np.asarray(given)
    except Exception as error:  # a tensor that needs gradients, say
        raise ConfigError(f"{who} gave a {type(given).__name__} that is no array ({error}).") from error
    check_scores(scores, n, who)
    if not np.isfinite(scores).all():
        raise ConfigError(f"{who} gave inf: every candidate needs a finite number.")
    return scores.astype(np.float64, copy=False)


def described(training_set: TrainingSet) -> str:
    """How many records there are, in words."""
    failed = int((training_set.labels == 0).sum())
    return f"{len(training_set)} records, {failed} of them failed"
