"""What each part of the method is worth: arms that are one base with one part changed (Pruner, table 12).

    python -m experiments.ablation measure=replay data=... device=... [tasks=[7,10]] [seed=[0,1]] ...
    python -m experiments.ablation measure=local [workload=[C2D/1,GMM/2]] ...

In a replay the arms choose from what others measured and nothing is run; `-m hydra/launcher=joblib` runs such
studies side by side. On this machine every arm is a process of its own: leave it alone meanwhile.
experiments/study.py makes blocks, experiments/ablation_rows.py says what is compared.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from experiments import ablation_rows, output, settings
from experiments.ablation_draw import picture
from experiments.ablation_report import text
from experiments.ablation_summary import assemble, speed_ups
from experiments.arm import Arm, check_overrides
from experiments.bases import Base, checkpoint_of
from experiments.place import Place
from experiments.pretrained import Pretrained
from experiments.replay import Recorded, recorded_places
from experiments.retime import on_this_machine
from experiments.study import Study, tell_failed
from pruner.analyzer.calibrate import cache_folder
from pruner.analyzer.device import Device
from pruner.config import compose
from pruner.costmodel.pretrained import check_kind
from pruner.costmodel.shipped import RELEASED
from pruner.errors import ConfigError
from pruner.files import alone_in
from pruner.placement import given_device
from pruner.records.dataset import RecordedTask
from pruner.settings import positive, whole

NAME = "ablation"
REPLAY, LOCAL = "replay", "local"
_SOURCE = {REPLAY: "a100-f1", LOCAL: "x86-64"}
_TRIALS = {REPLAY: 50, LOCAL: 100}
# Settings that the other kind of study has no use for.
_OF = {
    REPLAY: ("data", "tasks", "device", "recorded", "batch", "programs", "trial_s", "cache"),
    LOCAL: ("workload", "others"),
}
# Settings of `pruner tune` that a replay sets for all arms.
_REPLAYS = ("measure", "measure.trial_s", "measure.recorded", "data", "device", "target", "batch")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see experiments.settings.main."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return settings.main(
        NAME, lambda cfg: ablation(cfg, words), words, times=lambda cfg: cfg.measure != REPLAY
    )


def ablation(cfg: DictConfig, words: Sequence[str]) -> None:
    """Makes the blocks that are missing, and the study's files from all of them. words: the settings as they
    were given."""
    base, arms = _arms(cfg)
    trials = cfg.trials or _TRIALS[cfg.measure]
    made = output.origin(NAME, words)
    _check_given(cfg, {word.partition("=")[0] for word in words})
    _check_kinds(cfg, arms)
    places, left_out = _places(cfg)
    _check_unseen(arms, places)
    folder = Path(cfg.blocks or cfg.work_dir)
    settings.make_folder("blocks", folder)
    study = Study(
        trials, tuple(cfg.overrides), folder, made["machine"], output.say, places.__getitem__, cfg.beside
    )
    where = [(workload, seed) for seed in cfg.seed for workload in places]
    with alone_in(folder):
        for workload, seed in where:
            study.check(workload, seed, arms)
        blocks = [study.block(workload, seed, arms) for workload, seed in where]
    tell_failed(blocks)
    names = [arm.name for arm in arms]
    looks = [look for look in ablation_rows.LOOKS[cfg.measure] if look <= trials] or [trials]
    document = {
        **made,
        "base": base.name,
        "base_overrides": list(base.overrides),
        "source": base.source,
        "measure": cfg.measure,
        "trial_s": cfg.trial_s if cfg.measure == REPLAY else None,
        "trials": trials,
        "batch": cfg.batch if cfg.measure == REPLAY else None,
        "device": cfg.device,
        "overrides": list(cfg.overrides),
        "left_out": left_out,
        "as_recorded": {
            name: one.as_recorded(trials) for name, one in places.items() if isinstance(one, Recorded)
        },
        **assemble(ablation_rows.rows(blocks, names, looks), names, looks),
        "speed_ups": speed_ups(blocks, names) if cfg.measure == LOCAL else {},
    }
    output.write(
        cfg.work_dir,
        NAME,
        document=document,
        rows=[flat(row) for row in document["results"]],
        text=text(NAME, document),
        figure=picture(document),
    )


def _arms(cfg: DictConfig) -> tuple[Base, list[Arm]]:
    """The base and its arms; everything is checked before the first one runs. Raises ConfigError."""
    if cfg.measure not in (REPLAY, LOCAL):
        raise ConfigError(f"measure={cfg.measure} is not accepted: give {REPLAY} or {LOCAL}.")
    settings.check_filled(cfg, "seed", "arms")
    for seed in cfg.seed:
        whole(0, seed=seed)
    whole(0, trials=cfg.trials)
    whole(1, batch=cfg.batch, programs=cfg.programs)
    positive(trial_s=cfg.trial_s)
    own = _REPLAYS if cfg.measure == REPLAY else ()
    check_overrides(cfg.overrides, *own)
    base = Base.load(cfg.base, cfg.source or _SOURCE[cfg.measure])
    arms = [base.arm(name, *own) for name in cfg.arms]
    if cfg.measure == LOCAL:
        arms += [Arm.load(name) for name in cfg.others]
    names = [arm.name for arm in arms]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{', '.join(twice)} is given twice in arms and others. Give each arm once.")
    return base, arms


def _check_given(cfg: DictConfig, keys: Collection[str]) -> None:
    """Raises ConfigError for settings of the other kind of study, and without those that a replay needs."""
    other = REPLAY if cfg.measure == LOCAL else LOCAL
    given = [key for key in _OF[other] if key in keys]
    if given:
        raise ConfigError(f"{given[0]}= is of measure={other}: give measure={other}, or leave it out.")
    if cfg.measure == REPLAY and (not cfg.data or cfg.device is None):
        raise ConfigError(
            "measure=replay needs data= and device=: recorded measurements, as `pruner records` reads them, "
            "and the device that they are from."
        )


def _places(cfg: DictConfig) -> tuple[Mapping[str, Place], list[str]]:
    """By workload or task, where it is tuned; and what takes no part, in words. Raises ConfigError."""
    if cfg.measure == LOCAL:
        settings.check_filled(cfg, "workload")
        place_of: Callable[[str], Place] = on_this_machine(cfg.overrides)
        return {workload: place_of(workload) for workload in cfg.workload}, []
    cache = Path(cfg.cache or cache_folder().parent / "features")
    settings.make_folder("cache", cache)
    return recorded_places(cfg, cache)


def _check_kinds(cfg: DictConfig, arms: Sequence[Arm]) -> None:
    """Raises ConfigError when an arm starts from a checkpoint of another kind of device."""
    where = [f"device={cfg.device}"] if cfg.device is not None else cfg.overrides
    device = given_device(compose(["workload=GMM/0", *where]).device) or Device.auto()
    for checkpoint in dict.fromkeys(checkpoint_of(arm.overrides) for arm in arms):
        if checkpoint is not None:
            check_kind(checkpoint, device)


def _check_unseen(arms: Sequence[Arm], places: Mapping[str, Place]) -> None:
    """Raises ConfigError when an arm's checkpoint was trained on a task that is to be tuned, or its kin, for
    the same target. Released weights do not tell; they are of another device."""
    tasks = [RecordedTask(name, place.task.mod, place.task.target, 1.0, ()) for name, place in places.items()]
    found = dict.fromkeys(checkpoint_of(arm.overrides) for arm in arms)
    for checkpoint in found:
        if checkpoint is not None and not checkpoint.endswith(RELEASED):
            Pretrained.of(checkpoint).check_unseen(tasks)


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the document with plain values alone."""
    names = ("workload", "seed", "arm", "score", "latency_s", "best_s", "reached", "trials_to_5pct")
    plain = {key: row[key] for key in (*names, "seconds_to_5pct", "trials", "commit", "error")}
    plain |= {f"share_{look}": found for look, found in row["shares"].items()}
    plain["failed"] = sum(row["failures"].values())
    return plain | {f"{stage}_s": seconds for stage, seconds in row["seconds"].items()}


if __name__ == "__main__":
    sys.exit(main())
