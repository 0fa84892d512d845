"""Which processors this process may use."""

from __future__ import annotations

import os


def usable_cpus() -> set[int]:
    """Logical CPUs the process may run on, by number; where the system does not tell, all of them."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))
