"""Verifiers that researchers might bring to a study."""

from typing import ClassVar

import numpy as np

from pruner.costmodel.verifier import Verifier
from pruner.features.symbols import SymbolFeatures

SECONDS = SymbolFeatures.columns.index("seconds")


class Constant(Verifier):
    """Knows nothing. fits: the training sets of all models of this kind."""

    features = ("symbols",)
    fits: ClassVar[list] = []

    def fit(self, training_set):
        type(self).fits.append(training_set)

    def predict(self, features):
        return np.zeros(len(features["symbols"]))

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Oracle(Constant):
    """Knows that a program takes as long as the roofline says; with another sign, the contrary."""

    fits: ClassVar[list] = []

    def __init__(self, *, sign: float = 1.0, fit_seconds: float = 1.0):
        self.sign, self.fit_seconds = sign, fit_seconds

    def predict(self, features):
        return -self.sign * features["symbols"].values[:, SECONDS]


class Short(Constant):
    def predict(self, features):
        return np.zeros(3)


class NaN(Constant):
    def predict(self, features):
        return np.full(len(features["symbols"]), np.nan)


class Raises(Constant):
    """Cannot do what `where` names."""

    def __init__(self, *, where: str):
        self.where = where

    def fit(self, training_set):
        self._do("fit")

    def predict(self, features):
        self._do("predict")
        return super().predict(features)

    def _do(self, what):
        if what == self.where:
            raise ValueError("cannot")


class OneName(Constant):
    features = "symbols"


class Breaks(Oracle):
    """Cannot fit more often than `left` says."""

    left = 0

    def fit(self, training_set):
        if type(self).left == 0:
            raise KeyboardInterrupt
        type(self).left -= 1
