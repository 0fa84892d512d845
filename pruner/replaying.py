"""A replay of records: which of them a run is about."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from omegaconf import DictConfig, OmegaConf
from tvm.ir import IRModule

from pruner.errors import ConfigError
from pruner.records.command import progress_bars
from pruner.records.recorded_pool import RecordedPool
from pruner.target import Given
from pruner.workload import Task, make_task


def load_pool(cfg: DictConfig) -> tuple[RecordedPool, list[str]]:
    """The recorded programs that the settings ask for, of the task `workload` in `data`, and what the user
    should know about them. Raises ConfigError as RecordedPool does."""
    data: Any = cfg.data if isinstance(cfg.data, str) else OmegaConf.to_container(cfg.data)
    with progress_bars() as progress:
        pool = RecordedPool.load(data, cfg.workload, recorded=cfg.measure.recorded, progress=progress)
    left_out = f"; {pool.unusable:,} more that are no row of its space are left out" if pool.unusable else ""
    said = f"{len(pool):,} programs were recorded on {pool.machine or 'a machine without a name'}{left_out}"
    return pool, [said]


def check_recorded(task: Task, target: Given | None, mod: IRModule) -> None:
    """Raises ConfigError for a program or a target other than those of the recorded task."""
    if target is not None:
        raise ConfigError(
            f"target {target} cannot be chosen in a replay: it is the recorded one, {task.target}. Leave "
            "target out."
        )
    if not tvm_ffi.structural_equal(make_task(task.mod, task.target).mod, mod):
        raise ConfigError(f"the program is not the recorded one of {task.name}: give `pool.task.mod`.")
