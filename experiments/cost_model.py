"""How well do verifiers rank programs that they have not seen, on records?

    python -m experiments.cost_model data=PATH device=NAME [verifiers=[xgb]] [split=task] [seed=[0,1,2]] ...

Records are de-duplicated by trace; a program that was recorded several times has its mean latency. Every
verifier trains on the same programs and is scored on those of the rest that ran. As in TenSet, programs that
failed do not train either: why one fails has little to do with how fast it would be. `failed=true` trains on
them too, as slowest of all. The splits:

- split=task: five folds of tasks, tasks that differ only around their main reduction in one fold;
- split=within: a random half of every task's programs trains; split=time: the half that was measured first.

`checkpoints=[NAME,PATH]` scores pre-trained models beside them as they are, none on a task that it was
trained on.

Top-k is TenSet's (see experiments/ranking.py), `random` beside it the exact expectation of a random order.
`--multirun train_fraction=0.05,0.1,0.25,0.5,1.0` makes a folder a share of the training programs, and
`python -m experiments.report FOLDER` of the folder that holds them their learning curve. A fitted model's
predictions are kept in `blocks=`, so that a study that was cut off goes on with the same work_dir= or
blocks=.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from experiments import output, settings
from experiments.cost_model_report import picture, ranks, report, said
from experiments.cost_model_rows import (
    Result,
    against,
    by_chance,
    drawn,
    figures,
    results,
    rows,
    seed_rows,
    summary,
    unit_rows,
)
from experiments.entries import RANDOM, Entry
from experiments.featured import featured
from experiments.judged import named_device
from experiments.kin import families
from experiments.pool import Pool
from experiments.pretrained import Pretrained
from experiments.recorded import Reading, by_task
from experiments.splits import SPLITS, Fold, check_families, folds, share, validation
from experiments.units import Maker, Unit
from pruner.errors import ConfigError
from pruner.files import alone_in
from pruner.records.machines import check_one_machine
from pruner.records.read import read
from pruner.settings import positive, whole

STUDY = "cost_model"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see experiments.settings.main."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return settings.main(STUDY, lambda cfg: study(cfg, words), words)


def study(cfg: DictConfig, words: Sequence[str]) -> None:
    """Reads the records, fits and scores, writes the files. words: the settings as they were given."""
    entries = _entries(cfg)
    frozen = [Pretrained.of(given) for given in cfg.checkpoints]
    device = named_device(cfg.device)
    folder = Path(cfg.blocks or cfg.work_dir)
    settings.make_folder("blocks", folder)
    if cfg.cache is not None:
        settings.make_folder("cache", Path(cfg.cache))
    made = output.origin(STUDY, words)
    dataset, found = read(cfg.data, progress=Reading(output.say))
    output.say(found.summary())
    tasks = by_task(dataset, cfg.recorded, cfg.tasks)
    check_one_machine(tasks, "the records")
    check_families(cfg.split, families([records.tasks[0].mod for records in tasks]))  # features take minutes
    for one in frozen:
        one.check_unseen([records.tasks[0] for records in tasks if (records.failure == "").any()])
    names = set().union(*(one.features for one in entries), *(one.features for one in frozen))
    found_tasks, left_out = featured(tasks, device, names, cfg.cache, output.say)
    pool = Pool(found_tasks)
    splits = {seed: _folds(cfg, pool, seed) for seed in cfg.seed}
    maker = Maker(pool, folder, cfg.fit_seconds, made["versions"], made["commit"], output.say)
    with alone_in(folder):
        everything, units = _run(maker, entries, frozen, splits, cfg.split)
    unscored = [task.name for task in pool.tasks if task not in [one.task for one in everything]]
    by_draw = drawn(everything)
    document = {
        **made,
        "device": device.name,
        "split": cfg.split,
        "train_fraction": cfg.train_fraction,
        "train_failed": cfg.failed,
        "fit_seconds": cfg.fit_seconds,
        "settings": cfg.settings,
        "seeds": list(cfg.seed),
        "skipped": found.skipped,
        "left_out": [*left_out, *unscored],
        "elsewhere": {one.label: one.elsewhere([records.tasks[0] for records in tasks]) for one in frozen},
        "unusable": sum(task.unusable for task in pool.tasks),
        "refused": sum(task.refused for task in pool.tasks),
        "programs": len(pool.latency_s),
        "failed": int(np.isnan(pool.latency_s).sum()),
        "summary": summary(by_draw, units),
        "against": against(by_draw),
        "groups": seed_rows(figures(everything)),
        "results": rows(everything),
        "units": unit_rows(units, splits, pool),
    }
    output.write(
        cfg.work_dir,
        STUDY,
        document=document,
        rows=document["results"],
        text=f"{output.heading(STUDY, made)}\n{report(document)}",
        figure=picture(document["summary"]),
    )
    output.say(f"\n{ranks(document)}\n")


def _run(
    maker: Maker,
    entries: Sequence[Entry],
    frozen: Sequence[Pretrained],
    splits: Mapping[int, Sequence[Fold]],
    split: str,
) -> tuple[list[Result], dict[str, dict[int, list[Unit]]]]:
    """Fits and scores: a seed after the other, each with every verifier and checkpoint, each on every
    fold."""
    found: list[Result] = []
    units: dict[str, dict[int, list[Unit]]] = {
        label: {} for label in [*(one.label for one in entries), *(one.label for one in frozen)]
    }
    for seed, parts in splits.items():
        found += (new := by_chance(maker.pool, seed, parts))
        output.say(f"seed {seed}  {said(new)}")
        held = [validation(split, maker.pool.programs, fold.train, seed) for fold in parts]
        for entry in entries:
            mine = units[entry.label][seed] = []
            for number, (fold, inside) in enumerate(zip(parts, held, strict=True), 1):
                what = f"seed {seed}  {entry.label}" + (
                    f"  fold {number}/{len(parts)}" if len(parts) > 1 else ""
                )
                mine.append(maker.unit(entry, seed, fold, inside, what))
            found += (new := results(maker.pool, entry.label, seed, parts, [unit.scores for unit in mine]))
            output.say(f"seed {seed}  {said(new)}")
        for model in frozen:
            mine = [model.unit(maker, fold, f"seed {seed}  {model.label}") for fold in parts]
            units[model.label][seed] = mine
            found += (new := results(maker.pool, model.label, seed, parts, [unit.scores for unit in mine]))
            output.say(f"seed {seed}  {said(new)}")
    return found, units


def _entries(cfg: DictConfig) -> list[Entry]:
    """The verifiers; everything is checked before records are read. Raises ConfigError."""
    settings.check_filled(cfg, "data", "seed")
    if not cfg.checkpoints:
        settings.check_filled(cfg, "verifiers")
    if cfg.split not in SPLITS:
        raise ConfigError(f"split={cfg.split} is not accepted: give one of {', '.join(SPLITS)}.")
    whole(1, settings=cfg.settings)
    for seed in cfg.seed:
        whole(0, seed=seed)
    positive(train_fraction=cfg.train_fraction, fit_seconds=cfg.fit_seconds)
    if cfg.train_fraction > 1:
        raise ConfigError(f"train_fraction={cfg.train_fraction} is not accepted: give a share of at most 1.")
    # A random order's figures are known exactly and stand in every table.
    return [Entry.of(label, cfg.settings) for label in cfg.verifiers if label != RANDOM]


def _folds(cfg: DictConfig, pool: Pool, seed: int) -> list[Fold]:
    """The folds of a seed, with the share of the training programs that is asked for. Raises ConfigError when
    there is nothing to learn in one, or nothing to score in all."""
    found = []
    for number, fold in enumerate(folds(cfg.split, pool.programs, seed), 1):
        usable = fold.train if cfg.failed else fold.train[~np.isnan(pool.latency_s[fold.train])]
        train = share(usable, pool.programs.task, cfg.train_fraction, seed)
        if not pool.training_set(train, ()).tells_apart:
            raise ConfigError(
                f"split={cfg.split}: in the {len(train)} programs that fold {number} trains on no task has "
                "two that differ in latency, so that there is nothing to learn. Give more records."
            )
        found.append(Fold(train, fold.scored))
    if all(one.ranked.pairwise is None for one in by_chance(pool, seed, found)):
        raise ConfigError(
            f"split={cfg.split}: no task has two programs to score that differ in latency. Give more records."
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
