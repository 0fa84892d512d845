"""`pruner tune` against TVM's own tuner, on this machine.

    python -m experiments.compare [workload=[C2D/1,GMM/2]] [trials=200] [seed=[0,1]] [arms=[pruner,stock]] ...

Every arm gets the same trials and threads; a block, one workload and one seed, ends with the programs that
its arms held best, timed again in turn. experiments/study.py makes blocks, experiments/ratios.py says what is
compared. Leave the machine alone while it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from experiments import output, settings
from experiments.arm import Arm, check_overrides
from experiments.block import Block
from experiments.draw import curves
from experiments.retime import on_this_machine
from experiments.study import Study, tell_failed
from experiments.summary import assemble
from experiments.tables import text
from pruner.errors import ConfigError
from pruner.files import alone_in
from pruner.report import latency
from pruner.settings import whole

NAME = "compare"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see experiments.settings.main."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return settings.main(NAME, lambda cfg: compare(cfg, words), words)


def compare(cfg: DictConfig, words: Sequence[str]) -> None:
    """Makes the blocks that are missing, and the study's files from all of them. words: the settings as they
    were given."""
    chosen = _arms(cfg)
    made = output.origin(NAME, words)
    output.say(f"{made['machine']}  {made['commit'] or 'not in a clone'}")
    folder = Path(cfg.blocks or cfg.work_dir)
    settings.make_folder("blocks", folder)
    overrides = tuple(cfg.overrides)
    study = Study(cfg.trials, overrides, folder, made["machine"], output.say, on_this_machine(overrides))
    with alone_in(folder):
        blocks = _blocks(study, chosen, cfg.seed)
    names = {workload: [arm.name for arm in arms] for workload, arms in chosen.items()}
    document = {**made, "trials": cfg.trials, **assemble(blocks, names)}
    output.write(
        cfg.work_dir,
        NAME,
        document=document,
        rows=[_flat(row) for row in document["results"]],
        text=text(NAME, document),
        figure=curves(document["results"]),
    )
    tell_failed(blocks)


def _blocks(study: Study, chosen: Mapping[str, Sequence[Arm]], seeds: Sequence[int]) -> list[Block]:
    """The blocks of all workloads and seeds; what is wrong is told before the first one is made."""
    for workload, arms in chosen.items():
        for seed in seeds:
            study.check(workload, seed, arms)
    blocks = []
    for workload, arms in chosen.items():
        for seed in seeds:
            blocks.append(study.block(workload, seed, arms))
            _show(blocks[-1], arms)
    return blocks


def _arms(cfg: DictConfig) -> dict[str, list[Arm]]:
    """The arms by workload; everything is checked before the first one runs. Raises ConfigError."""
    whole(1, trials=cfg.trials)
    settings.check_filled(cfg, "workload", "seed", "arms")
    for seed in cfg.seed:
        whole(0, seed=seed)
    check_overrides(cfg.overrides)
    arms, extra = [Arm.load(name) for name in cfg.arms], [Arm.load(name) for name in cfg.extra]
    names = [arm.name for arm in (*arms, *extra)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{', '.join(twice)} is given twice in arms and extra. Give each arm once.")
    return {w: [*arms, *(extra if w in cfg.extra_workload else [])] for w in cfg.workload}


def _show(block: Block, arms: Sequence[Arm]) -> None:
    """A block's end, a line per arm: final latency as timed again, and seconds."""
    for arm in arms:
        points = block.curve(arm.name)
        seconds = block.arms[arm.name].seconds.get("total", 0.0)
        found = f"{latency(points[-1].latency_s)}  {seconds:.1f} s" if points else "no result"
        output.say(f"  {arm.name:18}{found}")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the document with plain values alone."""
    plain = {key: row[key] for key in ("workload", "seed", "arm", "latency_s", "trials", "commit", "error")}
    plain["failed"] = sum(row["failures"].values())
    plain |= {f"{stage}_s": seconds for stage, seconds in row["seconds"].items()}
    for name, near in row["reached"].items():
        plain[f"trials_to_{name}"] = near["trials"] if near else None
        plain[f"seconds_to_{name}"] = near["seconds"] if near else None
    return plain


if __name__ == "__main__":
    sys.exit(main())
