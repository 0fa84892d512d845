"""A data set of this machine: many tasks on two targets, random and drafted programs.

    python -m experiments.collect work_dir=data/cpu [minutes=60] [tasks=[C2D/0,GMM/0]] [programs=125] ...

A block is one task on one target, `TASK@TARGET` in the data set. Finished blocks are kept: the same command
goes on where it was stopped, on the same machine only, because latencies of two machines do not compare.
Of every block half of the programs are random legal ones, half are drawn from what one draft keeps; they are
measured in random order, as `pruner tune` measures, and the fastest are compared with the untuned program.
The data set is two files, `random.npz` and `drafted.npz`, and a README.md that says how it was made. Leave
the machine alone while it runs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zlib import crc32

import numpy as np
from omegaconf import DictConfig

from experiments import output, settings
from experiments.arm import check_overrides
from experiments.collect_report import readme
from experiments.collecting import choose, measured, recorded
from experiments.retime import Bench
from pruner.analyzer.draft import DraftModel
from pruner.config import compose, instantiate
from pruner.errors import ConfigError
from pruner.files import alone_in, write_whole
from pruner.records.dataset import Dataset, RecordedTask
from pruner.report import latency
from pruner.search.space import Space
from pruner.settings import whole

STUDY = "collect"
# What `target=` of `pruner tune` is; null = this machine's own.
TARGETS: dict[str, dict[str, Any] | None] = {
    "x86-64": {"kind": "llvm", "mcpu": "x86-64", "num-cores": 1},
    "native": None,
}
FILES = ("random", "drafted")
# What is told of a block.
_TOLD = {
    *("task", "target", "programs", "random", "failed", "compared", "best_s", "median_s", "untuned_s"),
    *("threads", "seconds", "commit"),
}
_MANIFEST = "collection.json"


@dataclass(frozen=True)
class Block:
    """One task on one target, and the folder of all blocks."""

    task: str
    target: str
    folder: Path

    @property
    def name(self) -> str:
        """The task's id in the data set."""
        return f"{self.task}@{self.target}"

    def path(self, end: str) -> Path:
        """A file of the block; the .json one is written last."""
        return self.folder / f"{quote(self.name, safe='@')}.{end}"

    @property
    def done(self) -> bool:
        """Whether it was finished, now or earlier."""
        return self.path("json").is_file()

    def load(self) -> tuple[list[Dataset], dict[str, Any]]:
        """A finished block's data sets, in the order of FILES, and what is told of it."""
        path = self.path("json")
        try:
            told: dict[str, Any] = json.loads(path.read_text("utf-8"))
            if missing := _TOLD - told.keys():
                raise ConfigError(f"no {', '.join(sorted(missing))}")
            return [Dataset.load(self.path(f"{name}.npz")) for name in FILES], told
        except (OSError, ValueError, AttributeError, ConfigError) as error:
            raise ConfigError(
                f"the block {path} is damaged ({error}). Remove that file; the block is made again."
            ) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see experiments.settings.main."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return settings.main(STUDY, lambda cfg: collect(cfg, words), words)


def collect(cfg: DictConfig, words: Sequence[str]) -> None:
    """Makes the blocks that are missing, as far as the time goes, and the data set from all there are."""
    start = time.monotonic()
    _check(cfg)
    made = output.origin(STUDY, words)
    folder = Path(cfg.blocks or Path(cfg.work_dir) / ".blocks")
    settings.make_folder("blocks", folder)
    blocks = [Block(task, target, folder) for task in cfg.tasks for target in cfg.targets]
    benches = {block: _bench(cfg, block) for block in blocks if not block.done}
    for block, bench in benches.items():
        _draft(cfg, block, bench)
    with alone_in(folder):
        _claim(cfg, folder, made["machine"])
        for number, block in enumerate(blocks, 1):
            where = f"{number}/{len(blocks)}  {block.name}"
            if block.done:
                output.say(f"{where}  kept")
                continue
            if cfg.minutes and time.monotonic() - start > 60 * cfg.minutes:
                output.say(f"The {cfg.minutes:g} minutes are over.")
                break
            told = make(cfg, block, benches[block], made["machine"])
            failed = f"  {told['failed']} failed" if told["failed"] else ""
            best = latency(told["best_s"])
            output.say(f"{where}  {told['programs']} programs{failed}  best {best}  {told['seconds']:.0f} s")
    _join(cfg, [block for block in blocks if block.done], made)
    missing = sum(not block.done for block in blocks)
    if missing:
        output.say(
            f"{missing} of {len(blocks)} blocks are missing; the same command with blocks={folder} makes "
            "them."
        )


def make(cfg: DictConfig, block: Block, bench: Bench, machine: str) -> dict[str, Any]:
    """Makes a block, saves it, and returns what is told of it."""
    start = time.monotonic()
    rng = np.random.default_rng([cfg.seed, crc32(block.name.encode())])
    space = Space.of(bench.task)
    chosen = choose(space, _draft(cfg, block, bench), cfg.programs, rng)
    with bench.measuring() as measurer:
        untuned = measurer.baseline()
        found = measured(measurer, chosen, _composed(cfg, block).batch)
    task = RecordedTask(block.name, bench.task.mod, bench.task.target)
    device = f"{machine}; {block.target}, {bench.threads} threads"
    for name, part in zip(FILES, recorded(task, space, chosen, found, device), strict=True):
        part.save(block.path(f"{name}.npz"))
    valid = [m.latency_s for m in found if m.latency_s is not None]
    told = {
        "task": block.task,
        "target": block.target,
        "programs": len(found),
        "random": sum(one.random for one in chosen),
        "failed": len(found) - len(valid),
        "compared": sum(m.compared for m in found),
        "best_s": min(valid, default=None),
        "median_s": float(np.median(valid)) if valid else None,
        "untuned_s": untuned.latency_s if untuned is not None else None,
        "threads": bench.threads,
        "seconds": time.monotonic() - start,
        "commit": output.commit(),
    }
    write_whole(block.path("json"), json.dumps(told, indent=1, allow_nan=False) + "\n")
    return told


def _check(cfg: DictConfig) -> None:
    settings.check_filled(cfg, "tasks", "targets")
    whole(2, programs=cfg.programs)
    whole(0, seed=cfg.seed)
    check_overrides(cfg.overrides, "target", "device", "draft")
    if not 0 <= cfg.minutes < float("inf"):
        raise ConfigError(f"minutes={cfg.minutes} is not accepted: give a number above 0, or 0 for no limit.")
    for target in cfg.targets:
        if target not in TARGETS:
            raise ConfigError(f"targets={target} is not accepted: give {' or '.join(TARGETS)}, or both.")


def _claim(cfg: DictConfig, folder: Path, machine: str) -> None:
    """Notes what the folder's blocks have in common, or raises ConfigError where it holds other ones."""
    mine = {
        "machine": machine,
        "programs": cfg.programs,
        "draft": cfg.draft,
        "seed": cfg.seed,
        "overrides": list(cfg.overrides),
    }
    path = folder / _MANIFEST
    if not path.exists():
        write_whole(path, json.dumps(mine, indent=1) + "\n")
        return
    try:
        theirs = json.loads(path.read_text("utf-8"))
        differing = [key for key in mine if theirs[key] != mine[key]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{path} is of no collection ({error!r}). Choose another folder.") from error
    if "machine" in differing:
        raise ConfigError(
            f"{folder} was begun on another machine, and latencies of two do not compare: there it was "
            f"{theirs['machine']}; here it is {machine}. Go on there, or choose another folder as blocks=DIR."
        )
    if differing:
        shown = "; ".join(f"{key}={theirs[key]}, here {key}={mine[key]}" for key in differing)
        raise ConfigError(f"{folder} was begun with {shown}. Choose another folder as blocks=DIR.")


def _composed(cfg: DictConfig, block: Block) -> DictConfig:
    """The settings of `pruner tune` for a block."""
    target = TARGETS[block.target]
    given = [] if target is None else [f"target={json.dumps(target)}"]
    return compose([f"workload={block.task}", f"draft={cfg.draft}", *given, *cfg.overrides])


def _draft(cfg: DictConfig, block: Block, bench: Bench) -> DraftModel:
    """Raises PrunerError when the draft model does not know the block's device."""
    model: DraftModel = instantiate(_composed(cfg, block).draft, device=bench.device)
    return model


def _bench(cfg: DictConfig, block: Block) -> Bench:
    return Bench.of(_composed(cfg, block))


def _join(cfg: DictConfig, blocks: Sequence[Block], made: Mapping[str, Any]) -> None:
    """Writes the data set and its README.md."""
    if not blocks:
        return
    loaded = [block.load() for block in blocks]
    folder = Path(cfg.work_dir)
    for i, name in enumerate(FILES):
        Dataset.concat([parts[i] for parts, _ in loaded]).save(folder / f"{name}.npz")
    told = [told for _, told in loaded]
    write_whole(folder / "README.md", readme(made, told))


if __name__ == "__main__":
    sys.exit(main())
