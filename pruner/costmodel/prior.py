"""The draft's predicted seconds as what a verifier starts from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch
from pruner.features.symbols import SymbolFeatures


def check_prior(prior: float) -> None:
    """Raises ConfigError unless it is a weight."""
    if not 0 <= prior < float("inf"):
        raise ConfigError(f"verifier.prior={prior} is not accepted: give a number of at least 0.")


def prior_scores(features: Mapping[str, FeatureBatch], prior: float) -> NDArray[np.float32]:
    """float32[n], `-prior * ln(predicted seconds)` up to a constant, from the `symbols` features."""
    # The column is log2(1 + nanoseconds).
    log_seconds = features[SymbolFeatures.name].values[:, SymbolFeatures.columns.index("seconds")]
    expected: NDArray[np.float32] = -np.float32(prior * np.log(2)) * log_seconds
    return expected
