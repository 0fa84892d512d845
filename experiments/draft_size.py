"""How small may a draft be? The best programs in it, against its size, on records.

    python -m experiments.draft_size data=PATH device=NAME [drafts=[roofline]] [sizes=[512]] ...

A draft model ranks all distinct programs of a task that ran, and the first N are the draft. Best-k is the
task's best latency over the k-th best latency in the draft; over tasks with weights w it is
`sum w * best / sum w * k-th best` (Pruner, equations 2 and 3). Null where a draft holds fewer than k
programs. Beside each stands the exact expectation of a random draft of that size, and for every task the
rank correlation of scores and latencies. A program that was recorded several times has its mean latency.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from omegaconf import DictConfig

from experiments import output, settings
from experiments.draft_size_report import picture, report, said
from experiments.draft_size_rows import SUMMARY, Kind, Row, Size, grouped, option, score, shown, summary
from experiments.judged import judged, named_device
from experiments.recorded import Reading, by_task
from pruner.analyzer.device import Device
from pruner.analyzer.penalties import kept_penalties
from pruner.config import compose, groups
from pruner.errors import ConfigError, PrunerError
from pruner.records.read import read
from pruner.settings import positive, whole

STUDY = "draft_size"
# No data set has more programs.
_MOST = 10**9


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see experiments.settings.main."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return settings.main(STUDY, lambda cfg: study(cfg, words), words)


def study(cfg: DictConfig, words: Sequence[str]) -> None:
    """Reads the records, scores them task by task, writes the files."""
    sizes = _sizes(cfg)
    device = named_device(cfg.device)
    kinds = _kinds(cfg, device)
    made = output.origin(STUDY, words)
    dataset, found = read(cfg.data, progress=Reading(output.say))
    output.say(found.summary())
    tasks = by_task(dataset, cfg.recorded, cfg.tasks)
    rows: list[Row] = []
    left_out, unscored = [], 0
    for number, records in enumerate(tasks, 1):
        task = judged(records, device)
        if task is None:
            left_out.append(records.tasks[0].id)
            output.say(
                f"{number}/{len(tasks)}  {left_out[-1]}  left out: no valid record of it can be replayed"
            )
            continue
        unscored += task.unscored
        rows += (new := list(score(task, kinds, sizes)))
        output.say(f"{number}/{len(tasks)}  {said(new, task.slow, task.unscored)}")
    if not rows:
        raise ConfigError(f"no task of {', '.join(cfg.data)} has a valid record: give other records.")
    document = {
        **made,
        "device": device.name,
        "skipped": found.skipped,
        "left_out": left_out,
        "unscored": unscored,
        "summary": summary(rows),
        "groups": grouped(rows),
        "results": shown(rows),
    }
    output.write(
        cfg.work_dir,
        STUDY,
        document=document,
        rows=document["results"],
        text=f"{output.heading(STUDY, made)}\n{report(document)}",
        figure=picture(document["groups"]),
    )


def _sizes(cfg: DictConfig) -> list[Size]:
    """What is asked for, and the summary's shares. Raises ConfigError."""
    settings.check_filled(cfg, "data", "penalties")
    for size in cfg.sizes:
        whole(1, sizes=size)
        if size > _MOST:
            raise ConfigError(f"sizes={size} is not accepted: give at most {_MOST:,}.")
    for share in cfg.shares:
        positive(shares=share)
        if share > 1:
            raise ConfigError(f"shares={share} is not accepted: give shares of at most 1.")
    for choice in cfg.penalties:
        kept_penalties(choice)
    shares = sorted({*map(float, cfg.shares), *SUMMARY.values()})
    return [*(Size(size, None) for size in cfg.sizes), *(Size(None, share) for share in shares)]


def _kinds(cfg: DictConfig, device: Device) -> list[Kind]:
    """The draft models; where none is named, all that know the device. Raises what making a named
    one raises."""
    names = list(cfg.drafts) or [name for name in groups()["draft"] if name != "custom"]
    kinds = []
    for name in names:
        has_penalties = "penalties" in compose(option(name)).draft
        try:
            for penalties in cfg.penalties if has_penalties else [None]:
                kind = Kind(name, penalties)
                kind.made(device)
                kinds.append(kind)
        except PrunerError as error:
            if cfg.drafts:
                raise
            output.say(f"draft={name} is left out: {error}")
    return kinds


if __name__ == "__main__":
    sys.exit(main())
