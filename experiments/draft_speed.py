"""Are drafts fast, and does TVM accept them? Against TVM's own sampling, on CPU and GPU targets.

    python -m experiments.draft_speed [workload=[C2D/0,GMM/0]] [target=[llvm,cuda]] [work_dir=FOLDER] ...

Seconds are wall time, and both sides may use every core: TVM's sampling and our replays run in one thread a
core, the draft itself is NumPy in one thread. A row says of a workload and target:

- `draft_s`: one draft, `explored` distinct rows scored and the best `size` kept; the median of `drafts` ones,
  each with a seed of its own. `first_draft_s` is the first, which also opens what the space had not met yet.
- `valid_share`: of `checked` random rows of a draft, the share that TVM's primitives and post-processors
  accept.
- `reject_agreement`: of `checked` random rows that the space refuses, spread evenly over its reasons, the
  share that TVM refuses too; null where it refuses none.
- `seconds_per_valid` = (draft_s + seconds to replay and post-process all rows kept) / valid rows kept. Both
  are taken from the checked rows: their seconds scaled, and valid_share of the rows kept.
- `stock_seconds_per_valid`: of TVM's evolutionary search filling its initial population.
- `ratio` = stock_seconds_per_valid / seconds_per_valid.
- `ratio_drafted` = stock_seconds_per_valid / drafted_seconds_per_valid, where the latter is draft_s / valid
  rows kept: nothing is replayed. `scored_seconds_per_valid` stands beside it: draft_s over valid_share of all
  rows that the formula scored, kept or not.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig

from experiments import output, settings
from experiments.draft_speed_report import picture, report, said
from experiments.stock_sampling import sample_valid
from experiments.validity import accepted, refused_rows, some
from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel, draft_scores
from pruner.config import compose, instantiate
from pruner.cores import usable_cpus
from pruner.errors import ConfigError
from pruner.placement import placed
from pruner.search.explorer import explore
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.settings import positive, whole
from pruner.workload import Task, load_task

STUDY = "draft_speed"
TARGETS = ("llvm", "cuda")

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One workload on one target, and the draft model of the target's device."""

    workload: str
    target: str
    task: Task
    draft: DraftModel


@dataclass(frozen=True)
class Drafted:
    """Several drafts of one space.

    seconds: of each, in order. kept: the rows that the last one kept. scored: how many rows the formula
    scored in it; those that the space refuses are not among them.
    """

    seconds: list[float]
    kept: Population
    scored: int


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see experiments.settings.main."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return settings.main(STUDY, lambda cfg: study(cfg, words), words)


def study(cfg: DictConfig, words: Sequence[str]) -> None:
    """Every workload on every target; the files are written anew after each."""
    settings.check_filled(cfg, "workload", "target")
    whole(1, drafts=cfg.drafts, checked=cfg.checked, stock_valid=cfg.stock_valid)
    whole(0, seed=cfg.seed)
    positive(stock_seconds=cfg.stock_seconds)
    made = output.origin(STUDY, words) | {"threads": len(usable_cpus())}
    rows: list[Row] = []
    for case in cases(cfg):
        rows.append(measure(case, cfg))
        print(said(rows[-1]), flush=True)
        output.write(
            cfg.work_dir,
            STUDY,
            document={**made, "results": rows},
            rows=[{key: value for key, value in row.items() if key != "rejects"} for row in rows],
            text=f"{output.heading(STUDY, made)}\n{report(rows)}",
            figure=picture(rows),
        )


def cases(cfg: DictConfig) -> list[Case]:
    """What the settings ask for, all of it loaded. Raises ConfigError for what cannot be."""
    unknown = [name for name in cfg.target if name not in TARGETS]
    if unknown:
        raise ConfigError(f"target={unknown[0]} is not accepted: give {' or '.join(TARGETS)}, or both.")
    return [_case(workload, name, cfg) for name in cfg.target for workload in cfg.workload]


def _case(workload: str, name: str, cfg: DictConfig) -> Case:
    tune = compose(
        [
            f"workload={workload}",
            f"device={cfg[name]}",
            f"draft={cfg.draft}",
            f"draft.explored={cfg.explored}",
            f"draft.size={cfg.size}",
        ]
    )
    described: Any = tune.device
    device, task, _ = placed(Device.of(described), None, lambda target: load_task(workload, target))
    if task.target.kind.name != name:
        raise ConfigError(
            f"{name}={cfg[name]} is not accepted: that device's programs are for {task.target.kind.name}. "
            f"Give a device whose programs are for {name}."
        )
    return Case(workload, name, task, instantiate(tune.draft, device=device))


def measure(case: Case, cfg: DictConfig) -> Row:
    """The row of one case."""
    rng = np.random.default_rng(cfg.seed)
    start = time.perf_counter()
    space = Space.of(case.task)
    space_s = time.perf_counter() - start
    drafted = drafts(space, case.draft, cfg.drafts, cfg.seed)
    valid, replay_s = accepted(some(drafted.kept, cfg.checked, rng))
    legal_share, refused = refused_rows(space, cfg.checked, rng)
    rejects = {
        reason: {"checked": len(rows), "confirmed": int((~accepted(rows)[0]).sum())}
        for reason, rows in refused.items()
    }
    threads = len(usable_cpus())
    stock = sample_valid(
        case.task, valid=cfg.stock_valid, seconds=cfg.stock_seconds, threads=threads, rng=rng
    )
    return {
        "workload": case.workload,
        "target": case.target,
        "space_s": space_s,
        "first_draft_s": drafted.seconds[0],
        "scored": drafted.scored,
        "kept": len(drafted.kept),
        "checked": len(valid),
        "legal_share": legal_share,
        "reject_agreement": agreement(rejects),
        "rejects": rejects,
        "stock_tries": stock.tries,
        "stock_valid": stock.valid,
        **compared(drafted, valid, replay_s, stock.seconds / stock.valid if stock.valid else None),
    }


def drafts(space: Space, draft: DraftModel, n: int, seed: int) -> Drafted:
    """n drafts, each with a seed of its own. Garbage is collected first: a full collection takes as long as a
    draft, and most of what it looks at is from the imports."""
    gc.collect()
    seconds = []
    for number in range(n):
        scored: list[int] = []

        def fitness(rows: Population, scored: list[int] = scored) -> NDArray[np.float64]:
            scored.append(len(rows))
            return draft_scores(draft, rows)

        start = time.perf_counter()
        kept, _ = explore(
            space,
            fitness,
            explored=draft.explored,
            size=draft.size,
            measured=np.empty(0, dtype=np.uint64),
            seeds=None,
            rng=np.random.default_rng([seed, number]),
        )
        seconds.append(time.perf_counter() - start)
    return Drafted(seconds, kept, sum(scored))


def compared(
    drafted: Drafted, valid: NDArray[np.bool_], replay_s: float, stock_seconds_per_valid: float | None
) -> Row:
    """The figures that follow from those measured, as this module's text defines them; None where one side
    has nothing valid.

    Args:
        valid: of the checked rows, which ones TVM accepts. replay_s: what asking took.
    """
    draft_s, kept = median(drafted.seconds), len(drafted.kept)
    share = float(valid.mean()) if len(valid) else 0.0
    ours = each = scored = None
    if share:
        ours = (draft_s + replay_s / len(valid) * kept) / (share * kept)
        each = draft_s / (share * kept)
        scored = draft_s / (share * drafted.scored)
    stock = stock_seconds_per_valid
    return {
        "draft_s": draft_s,
        "valid_share": share,
        "seconds_per_valid": ours,
        "drafted_seconds_per_valid": each,
        "scored_seconds_per_valid": scored,
        "stock_seconds_per_valid": stock,
        "ratio": stock / ours if stock and ours else None,
        "ratio_drafted": stock / each if stock and each else None,
    }


def agreement(rejects: dict[str, dict[str, int]]) -> float | None:
    """The share of the checked rejects that TVM confirms; None without any."""
    checked = sum(one["checked"] for one in rejects.values())
    return sum(one["confirmed"] for one in rejects.values()) / checked if checked else None


if __name__ == "__main__":
    sys.exit(main())
