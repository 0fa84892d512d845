"""How feature columns are brought to one size; kept with the model that was trained on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch

FORMS = ("standard", "maximum")


def check_form(form: str) -> None:
    """Raises ConfigError unless it is one of FORMS."""
    if form not in FORMS:
        raise ConfigError(f"verifier.normaliser={form} is not accepted: give {' or '.join(FORMS)}.")


@dataclass(frozen=True)
class Normaliser:
    """`(values - shift) / scale`, both float32[width]."""

    shift: NDArray[np.float32]
    scale: NDArray[np.float32]

    @staticmethod
    def fitted(form: str, batch: FeatureBatch) -> Normaliser:
        """That of a training set. form: `maximum` divides every column by the largest value it had, as TenSet
        and Pruner do, where that is above zero; `standard` takes the mean away and divides by the standard
        deviation, where there is one."""
        values = batch.values
        if form == "maximum":
            most = values.max(axis=0, initial=0.0)
            return Normaliser(np.zeros_like(most), np.where(most > 0, most, np.float32(1)))
        if not len(values):
            return Normaliser(np.zeros_like(values.sum(axis=0)), np.ones_like(values.sum(axis=0)))
        deviation = values.std(axis=0, dtype=np.float64)
        steady = deviation < 1e-6
        shift = values.mean(axis=0, dtype=np.float64)
        return Normaliser(shift.astype(np.float32), np.where(steady, 1.0, deviation).astype(np.float32))

    def __call__(self, batch: FeatureBatch) -> FeatureBatch:
        values = (batch.values - self.shift) / self.scale
        return FeatureBatch(values, batch.offsets, batch.name, batch.version)
