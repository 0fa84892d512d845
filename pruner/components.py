"""What a run is assembled from, and how long it may go on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hydra.utils import get_class
from omegaconf import OmegaConf

from pruner.adapt.rule import AdaptationRule, Frozen
from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel
from pruner.config import CONF, groups
from pruner.costmodel.verifier import Verifier
from pruner.errors import ConfigError
from pruner.measure.measurement import Measurer
from pruner.search.strategy import SearchStrategy
from pruner.settings import whole


@dataclass(frozen=True)
class Components:
    """The exchangeable parts of a run, and the device they are for."""

    device: Device
    draft: DraftModel
    verifier: Verifier
    search: SearchStrategy
    adapt: AdaptationRule

    def __post_init__(self) -> None:
        families = {
            "device": Device,
            "draft": DraftModel,
            "verifier": Verifier,
            "search": SearchStrategy,
            "adapt": AdaptationRule,
        }
        for name, family in families.items():
            part = getattr(self, name)
            if not isinstance(part, family):
                raise ConfigError(
                    f"{name} is {part!r}, a {type(part).__name__}: give an instance of {family.__module__}."
                    f"{family.__name__}."
                )

    def suited_to(self, measurer: Measurer) -> tuple[Components, list[str]]:
        """The parts of a run with this measurer, and what had to change, in words."""
        if not isinstance(measurer, Measurer):
            raise ConfigError(
                f"measure is {measurer!r}, a {type(measurer).__name__}: give an instance of "
                f"{Measurer.__module__}.{Measurer.__name__}."
            )
        if measurer.pool is not None:
            check_ranks_pool(self.search)
        if measurer.times or not self.adapt.learns:
            return self, []
        checkpoint = self.adapt.checkpoint
        note = "nothing is timed, so nothing is learnt: adapt=frozen"
        if checkpoint is not None:
            note += f" adapt.checkpoint={checkpoint}"
        elif not self.verifier.fitted:
            note += ", and the draft's order is the verifier's"
        return replace(self, adapt=Frozen(checkpoint=checkpoint)), [note]


def check_ranks_pool(search: object) -> None:
    """Raises ConfigError for a strategy that cannot choose from recorded programs."""
    if not isinstance(search, SearchStrategy) or search.ranks_pool:  # Components refuses what is none
        return
    able = []
    for option in groups()["search"]:
        described: Any = OmegaConf.load(CONF / "search" / f"{option}.yaml")
        strategy: Any = None if OmegaConf.is_missing(described, "_target_") else get_class(described._target_)
        if strategy is not None and strategy.ranks_pool:
            able.append(f"search={option}")
    raise ConfigError(
        f"{type(search).__name__} makes its own candidates, and in a replay (measure=replay) only recorded "
        f"programs can be measured: choose {' or '.join(able)}, or one of your own with ranks_pool=True."
    )


@dataclass(frozen=True)
class Budget:
    """trials: candidates to measure, `batch` a round; minutes: of wall time, None = no limit."""

    trials: int
    batch: int
    minutes: float | None = None

    def __post_init__(self) -> None:
        whole(1, trials=self.trials, batch=self.batch)
        if self.minutes is not None and not self.minutes > 0:
            raise ConfigError(f"minutes={self.minutes} is not accepted: give a number above 0, or None.")
