"""Of which machine records are: latencies compare within one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pruner.errors import ConfigError
from pruner.records.dataset import Dataset


def of_machines(dataset: Dataset, recorded: str | None, setting: str = "recorded") -> Dataset:
    """The records of the machines that have `recorded` in their names; None = all. setting: what the user
    knows it by. Raises ConfigError when it is in no name."""
    if recorded is None:
        return dataset
    check_text(recorded, setting)
    wanted = [name for name in dataset.devices if recorded in name]
    if not wanted:
        known = "; ".join(map(_named, dataset.devices)) or "nothing"
        raise ConfigError(f"{setting}={recorded} is in no device's name; the records are of {known}.")
    return dataset[np.isin(dataset.device, wanted)]


def check_text(recorded: object, setting: str) -> None:
    """Raises ConfigError for what can be part of no name."""
    if not isinstance(recorded, str):
        raise ConfigError(f"{setting}={recorded} is not accepted: give part of a machine's name, a text.")


def check_one_machine(tasks: Sequence[Dataset], what: str, setting: str = "recorded") -> None:
    """Raises ConfigError when records are of several machines. what: names them in the message."""
    machines = sorted({machine for task in tasks for machine in task.devices})
    if len(machines) > 1:
        raise ConfigError(
            f"{what} are of {len(machines)} devices, and latencies compare within one. Choose with "
            f"{setting}=TEXT, part of a name: {'; '.join(map(_named, machines))}."
        )


def _named(machine: str) -> str:
    return machine or "(unnamed)"
