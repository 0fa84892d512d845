"""Does the draft still help where verifying is cheap?

    python -m experiments.draft_value [workload=[GMM/2]] [verifiers=[xgb,pacm]] [sizes=[32,512,8000]] ...

Tunes with drafts of several sizes: the draft keeps so many of the rows that are explored a round, and the
verifier ranks those alone; with as many as are explored, it ranks them all. Every verifier's sizes are
compared with its own run at `base`, block by block; experiments/study.py makes blocks, experiments/ratios.py
says what is compared. Leave the machine alone while it runs.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from experiments import output, settings
from experiments.arm import Arm, check_overrides
from experiments.block import Block
from experiments.draft_value_report import picture, text
from experiments.ratios import Opponent, races
from experiments.retime import on_this_machine
from experiments.study import Study
from experiments.summary import against, rows
from pruner.config import compose, instantiate
from pruner.errors import ConfigError
from pruner.files import alone_in
from pruner.settings import whole

NAME = "draft_value"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see experiments.settings.main."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return settings.main(NAME, lambda cfg: study(cfg, words), words)


def study(cfg: DictConfig, words: Sequence[str]) -> None:
    """Makes the blocks that are missing, and the study's files from all of them. words: the settings as they
    were given."""
    arms = _arms(cfg)
    made = output.origin(NAME, words)
    folder = Path(cfg.blocks or cfg.work_dir)
    settings.make_folder("blocks", folder)
    overrides = tuple(cfg.overrides)
    engine = Study(cfg.trials, overrides, folder, made["machine"], output.say, on_this_machine(overrides))
    flat = [arm for sizes in arms.values() for arm in sizes.values()]
    where = [(workload, seed) for workload in cfg.workload for seed in cfg.seed]
    with alone_in(folder):
        for workload, seed in where:
            engine.check(workload, seed, flat)
        blocks = [engine.block(workload, seed, flat) for workload, seed in where]
    results = [
        {"verifier": verifier, "size": size, **row}
        for block in blocks
        for verifier, sizes in arms.items()
        for size, arm in sizes.items()
        for row in rows(block, [arm.name], {})
    ]
    document = {
        **made,
        "trials": cfg.trials,
        "base": cfg.base,
        "summary": {verifier: _summary(blocks, sizes, cfg.base) for verifier, sizes in arms.items()},
        "results": results,
    }
    output.write(
        cfg.work_dir,
        NAME,
        document=document,
        rows=[_flat(row) for row in results],
        text=text(NAME, document),
        figure=picture(results),
    )


def _summary(blocks: Sequence[Block], sizes: Mapping[int, Arm], base: int) -> dict[str, Any]:
    """By every other size, its ratios to the base: above 1 where the size is better."""
    opponent = Opponent(str(base), (sizes[base].name,))
    return {
        str(size): against(races(blocks, arm.name, opponent)) for size, arm in sizes.items() if size != base
    }


def _arms(cfg: DictConfig) -> dict[str, dict[int, Arm]]:
    """By verifier and size; everything is checked before the first one runs. Raises ConfigError."""
    whole(1, trials=cfg.trials)
    settings.check_filled(cfg, "workload", "seed", "verifiers", "sizes")
    for seed in cfg.seed:
        whole(0, seed=seed)
    for size in cfg.sizes:
        whole(1, sizes=size)
    if cfg.base not in cfg.sizes:
        given = ", ".join(map(str, cfg.sizes))
        raise ConfigError(f"base={cfg.base} is none of the sizes: give one of {given}.")
    check_overrides(cfg.overrides, "draft.size", "verifier")
    found: dict[str, dict[int, Arm]] = {}
    for verifier in cfg.verifiers:
        name, words = _words(verifier)
        if name in found:
            raise ConfigError(f"verifiers hold {name} twice: name each once.")
        found[name] = {size: _arm(name, words, size, cfg.overrides) for size in cfg.sizes}
    return found


def _words(verifier: str) -> tuple[str, list[str]]:
    """How a verifier is called, and its overrides."""
    try:
        option, *own = shlex.split(verifier)
    except ValueError as error:
        raise ConfigError(f"verifiers={verifier!r} cannot be read: {error}.") from error
    return shlex.join([option, *own]), [f"verifier={option}", *own]


def _arm(verifier: str, words: Sequence[str], size: int, overrides: Sequence[str]) -> Arm:
    own = (*words, f"draft.size={size}")
    try:
        check_overrides(own)
        tuned = compose(["workload=GMM/0", *overrides, *own])
        instantiate(tuned.verifier, seed=0)
    except ConfigError as error:
        raise ConfigError(f"verifiers={verifier!r}: {error}") from error
    if size > tuned.draft.explored:
        raise ConfigError(
            f"sizes={size} is more than the {tuned.draft.explored} rows that a draft explores: give at most "
            "as many, or draft.explored among overrides."
        )
    # It names a folder, too.
    return Arm(re.sub(r"[^A-Za-z0-9_.=]+", "-", f"{verifier}-{size}"), own)


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the document with plain values alone."""
    names = ("workload", "seed", "verifier", "size", "latency_s", "trials", "commit", "error")
    return {name: row[name] for name in names} | {f"{s}_s": seconds for s, seconds in row["seconds"].items()}


if __name__ == "__main__":
    sys.exit(main())
