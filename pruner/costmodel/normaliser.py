"""How feature columns are brought to one size; kept with the model that was trained on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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

    @staticmethod
    def loaded(name: str, state: Mapping[str, Any], width: int) -> Normaliser:
        """That of a checkpoint, for the feature of this name and so many columns. Raises ConfigError for a
        state that is none."""
        shapes = [np.shape(state.get(part, 0.0)) for part in ("shift", "scale")]
        limit = state.get("limit", "missing")
        if shapes != [(width,), (width,)] or not (limit is None or isinstance(limit, float)):
            raise ConfigError(
                f"the checkpoint's normaliser of {name} has {', '.join(state) or 'nothing'}, of the shapes "
                f"{shapes}; needed are shift and scale of {(width,)} and a limit. Choose another checkpoint."
            )
        return Normaliser(
            np.asarray(state["shift"], np.float32), np.asarray(state["scale"], np.float32), limit
        )

    def __call__(self, batch: FeatureBatch) -> FeatureBatch:
        values = (batch.values - self.shift) / self.scale
        if self.limit is not None:
            values = values.clip(-self.limit, self.limit)
        return FeatureBatch(values, batch.offsets, batch.name, batch.version)
