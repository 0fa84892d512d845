"""How feature columns are brought to one size; kept with the model that was trained on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch

FORMS = ("standard", "maximum")
# Standard deviations. A column that is nearly always one number, such as a rare loop's, would else have
# values of fifty and more, by which a network learns single programs by heart.
_FURTHEST = 4.0


def check_form(form: str) -> None:
    """Raises ConfigError unless it is one of FORMS."""
    if form not in FORMS:
        raise ConfigError(f"verifier.normaliser={form} is not accepted: give {' or '.join(FORMS)}.")


@dataclass(frozen=True)
class Normaliser:
    """`(values - shift) / scale`, both float32[width], no further from 0 than `limit`, where there is one."""

    shift: NDArray[np.float32]
    scale: NDArray[np.float32]
    limit: float | None

    @staticmethod
    def fitted(form: str, batch: FeatureBatch) -> Normaliser:
        """That of a training set. form: `maximum` divides every column by the largest value it had, as TenSet
        and Pruner do, where that is above zero; `standard` takes the mean away and divides by the standard
        deviation, where there is one, and keeps what lies further out at four of them."""
        values = batch.values
        if form == "maximum":
            most = values.max(axis=0, initial=0.0)
            return Normaliser(np.zeros_like(most), np.where(most > 0, most, np.float32(1)), None)
        if not len(values):
            return Normaliser(np.zeros_like(values.sum(axis=0)), np.ones_like(values.sum(axis=0)), _FURTHEST)
        deviation = values.std(axis=0, dtype=np.float64)
        steady = deviation < 1e-6
        shift = values.mean(axis=0, dtype=np.float64)
        return Normaliser(
            shift.astype(np.float32), np.where(steady, 1.0, deviation).astype(np.float32), _FURTHEST
        )

    def __call__(self, batch: FeatureBatch) -> FeatureBatch:
        values = (batch.values - self.shift) / self.scale
        if self.limit is not None:
            values = values.clip(-self.limit, self.limit)
        return FeatureBatch(values, batch.offsets, batch.name, batch.version)
