"""What a roofline says of one statement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Terms:
    """Seconds of one statement, float64[m].

    core: the inner code. near: traffic of private memory: caches of a core, shared and local memory of a
        GPU's multiprocessor. far: traffic of shared cache and memory.
    total: the three together. share: the part of the work that the fullest core gets.
    """

    core: Floats
    near: Floats
    far: Floats
    total: Floats
    share: Floats
