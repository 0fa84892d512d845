"""The six penalties of Pruner's analyzer, each of which can be taken away.

A level has a memory penalty (what does not fit) and a compute penalty (what stands idle): l0 is registers
and lanes, l1 the private memory and the units of a core, l2 memory and the cores (Pruner, section 4.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError

PENALTIES = ("l0_memory", "l0_compute", "l1_memory", "l1_compute", "l2_memory", "l2_compute")
CHOICES = ("all", "no_compute", "no_memory", "none", *(f"no_{name}" for name in PENALTIES))


def kept_penalties(choice: str) -> frozenset[str]:
    """The penalties that `draft.penalties=choice` leaves in force. Raises ConfigError with the choices."""
    if choice not in CHOICES:
        raise ConfigError(f"draft.penalties={choice}: accepted are {', '.join(CHOICES)}")
    if choice == "all":
        return frozenset(PENALTIES)
    if choice == "none":
        return frozenset()
    removed = choice.removeprefix("no_")
    return frozenset(name for name in PENALTIES if name != removed and not name.endswith(f"_{removed}"))


def utilisation(n: NDArray[np.float64], units: float) -> NDArray[np.float64]:
    """`n / (ceil(n / units) * units)`: how full `units` are on average when `n` pieces of work are dealt out
    to them in rounds. Six blocks on four units give 0.75."""
    return n / (np.ceil(n / units) * units)


def fit(capacity: float, need: NDArray[np.float64]) -> NDArray[np.float64]:
    """`min(capacity / need, 1)`: how much of what is needed a memory holds; 1 when nothing is needed."""
    return np.minimum(capacity / np.maximum(need, 1e-9), 1.0)
