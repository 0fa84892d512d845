"""The six penalties of Pruner's analyzer, each of which can be taken away.

A level has a memory penalty (what does not fit) and a compute penalty (what stands idle): l0 is registers
and lanes, l1 the private memory and the units of a core, l2 memory and the cores (Pruner, section 4.1).
"""

from __future__ import annotations

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
