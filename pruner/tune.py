"""The ways in: `pruner.tune(...)` from Python, `run(settings)` from the command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from omegaconf import DictConfig, OmegaConf
from tvm.ir import IRModule
from tvm.target import Target
from tvm.tirx import PrimFunc

from pruner.adapt.rule import AdaptationRule, Scratch
from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel
from pruner.analyzer.roofline import RooflineDraft
from pruner.components import Budget, Components, check_ranks_pool
from pruner.config import imported, instantiate
from pruner.costmodel.verifier import Verifier
from pruner.display import Display, make_display
from pruner.loop import Run
from pruner.measure.clock import Clock
from pruner.measure.local import LocalMeasurer
from pruner.measure.measurement import Measurer
from pruner.placement import given_device, host_threads, placed, placed_on_records
from pruner.records.recorded_pool import RecordedPool
from pruner.replaying import check_recorded, load_pool
from pruner.result import TuneResult
from pruner.search.latent import LatentSearch
from pruner.search.strategy import SearchStrategy
from pruner.settings import whole
from pruner.workload import Task, load_task, make_task


def tune(
    mod: IRModule | PrimFunc,
    *,
    target: str | Mapping[str, object] | Target | None = None,
    trials: int = 64,
    batch: int = 10,
    seed: int = 0,
    minutes: float | None = None,
    device: Device | str | None = None,
    draft: DraftModel | None = None,
    verifier: Verifier | None = None,
    search: SearchStrategy | None = None,
    adapt: AdaptationRule | None = None,
    measurer: Measurer | None = None,
    work_dir: str | Path | None = None,
    display: Display | None = None,
    name: str = "main",
) -> TuneResult:
    """Tunes one tensor program.

    Args:
        mod: a PrimFunc, or a module with one; in a replay, what was recorded: `pool.task.mod`.
        target: overrides the device's own; in a replay it is the recorded one.
        trials, batch, minutes: see Budget.
        device: one, or the name of a declared one; by default the machine this runs on.
        draft, verifier, search, adapt, measurer: components; by default those of `pruner tune`.
        work_dir: a new folder for the run's files; by default outputs/DATE/TIME.
        display: what to show; by default nothing.

    Raises ConfigError for what cannot be used, UntunableError when there is nothing to tune.
    """
    from pruner.costmodel.xgb import XGBVerifier  # importing XGBoost takes long, and `run` may not need it

    clock = Clock()
    budget = Budget(trials, batch, minutes)
    whole(0, seed=seed)

    def load(complete: Target) -> Task:
        _check(LocalMeasurer if measurer is None else type(measurer), complete)
        return make_task(mod, complete, name)

    given = given_device({"name": device}) if isinstance(device, str) else device
    pool = measurer.pool if isinstance(measurer, Measurer) else None  # what else it may be is told later
    if measurer is None or pool is None:
        device, task, notes = placed(given, target, load)
    else:
        task = pool.space.task
        check_recorded(task, target, make_task(mod, task.target, name).mod)
        device, notes = placed_on_records(given, task, measurer.machine)
    threads = host_threads(device)
    components = Components(
        device,
        draft or RooflineDraft(device=device),
        verifier or XGBVerifier(seed=seed),
        search or LatentSearch(),
        adapt or Scratch(),
    )
    made = measurer or LocalMeasurer(task=task, threads=threads)
    components, more = components.suited_to(made)
    settings: dict[str, Any] = {"trials": trials, "batch": batch, "measure": _described(made)}
    settings |= {family: _described(part) for family, part in vars(components).items() if family != "device"}
    folder = Path(work_dir or time.strftime("outputs/%Y-%m-%d/%H-%M-%S"))
    return Run(task, components, made, budget, seed, folder, settings, display or Display(), clock).go(
        [*notes, *more]
    )


def run(
    cfg: DictConfig,
    clock: Clock,
    *,
    pool: RecordedPool | None = None,
    display: Display | None = None,
    picture: bool = True,
) -> TuneResult:
    """`pruner tune`: a run as the settings say, by default shown on the terminal.

    Args:
        clock: running since the command.
        pool: that the settings name, where it has been read already.
        picture: whether to draw the curve, which takes as long as many recorded trials.
    """

    def load(complete: Target) -> Task:
        _check(imported(cfg.measure).func, complete)
        return load_task(cfg.workload, complete)

    described: Any = OmegaConf.to_container(cfg.device)
    search = instantiate(cfg.search)
    if cfg.data is None:
        device, task, notes = placed(given_device(described), cfg.target, load)
    else:
        check_ranks_pool(search)
        said: list[str] = []
        if pool is None:
            with clock.paused():  # what is replayed did not read records
                pool, said = load_pool(cfg)
        task = pool.task
        device, notes = placed_on_records(given_device(described), task, pool.machine)
        notes = [*said, *notes]
    threads = host_threads(device)
    components = Components(
        device,
        instantiate(cfg.draft, device=device),
        instantiate(cfg.verifier, seed=cfg.seed),
        search,
        instantiate(cfg.adapt, seed=cfg.seed),
    )
    made = instantiate(cfg.measure, task=task, threads=threads, **({} if pool is None else {"pool": pool}))
    components, more = components.suited_to(made)
    shown: Any = OmegaConf.to_container(cfg)
    settings = {str(key): value for key, value in shown.items() if key not in ("work_dir", "workload")}
    if more:
        settings["adapt"] = _described(components.adapt)
    budget = Budget(cfg.trials, cfg.batch, cfg.minutes)
    folder = Path(cfg.work_dir)
    shown_on = display or make_display()
    tuned = Run(task, components, made, budget, cfg.seed, folder, settings, shown_on, clock, picture)
    return tuned.go([*notes, *more])


def _check(measures: object, target: Target) -> None:
    """Refuses a target that a class of measurers cannot measure, before anything is done for it."""
    if isinstance(measures, type) and issubclass(measures, Measurer):
        measures.check_target(target)


def _described(component: object) -> dict[str, Any]:
    """A component's class and its plain public settings."""
    plain = (bool, int, float, str, type(None))
    shown = {k: v for k, v in vars(component).items() if k[0] != "_" and isinstance(v, plain)}
    return {"_target_": f"{type(component).__module__}.{type(component).__qualname__}", **shown}


class _CallableModule(ModuleType):
    """`pruner.tune` is this module once it is imported; calling it calls the function of the same name."""

    def __call__(self, *args: Any, **kwargs: Any) -> TuneResult:
        return tune(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
