"""Makes pre-trained checkpoints from records, `NAME.safetensors`.

    python -m experiments.pretrain [checkpoints=[pacm-a100,xgb-a100]] [folder=DIR] ...

What each is made from stands in conf/pretrain.yaml. A tenth of every task's programs that ran is held out,
and the header tells how the model ranks what it has not seen. A checkpoint that was made from the same
records, features, settings and versions is kept, and a training that was cut off goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from experiments import output, settings
from experiments.definitions import Definition, definitions, read_definitions
from experiments.entries import Entry
from experiments.featured import featured
from experiments.judged import named_device
from experiments.pool import Pool
from experiments.pretrain_report import report, said, table_row
from experiments.recorded import Reading, by_task
from experiments.trainer import Material, Trainer
from pruner.analyzer.device import Device
from pruner.costmodel.shipped import FOLDER
from pruner.errors import ConfigError
from pruner.files import alone_in
from pruner.records.dataset import Dataset
from pruner.records.machines import check_one_machine
from pruner.records.read import read
from pruner.settings import positive, whole

STUDY = "pretrain"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; see experiments.settings.main."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return settings.main(STUDY, lambda cfg: study(cfg, words), words)


def study(cfg: DictConfig, words: Sequence[str]) -> None:
    """Trains and writes. words: the settings as they were given. Everything is checked before records are
    read. Raises ConfigError."""
    whole(0, seed=cfg.seed)
    positive(fit_seconds=cfg.fit_seconds)
    shipped: Any = OmegaConf.to_container(cfg.shipped)
    own = None if cfg.definitions is None else read_definitions(cfg.definitions)
    if own is not None and cfg.folder is None:
        raise ConfigError("definitions= needs a folder= of its own: checkpoints/ holds those of the package.")
    chosen = definitions(shipped if own is None else own, cfg.checkpoints)
    jobs = [(one, Entry.of(one.verifier, 1), named_device(one.device)) for one in chosen]
    for one in chosen:
        _ = one.paths
    folder = Path(cfg.folder or FOLDER)
    settings.make_folder("folder", folder)
    if cfg.cache is not None:
        settings.make_folder("cache", Path(cfg.cache))
    made = output.origin(STUDY, words)
    # By name, since a path would say something of this machine.
    given = [] if own is None else [f"definitions={Path(cfg.definitions).name}"]
    given += [f"seed={cfg.seed}", f"fit_seconds={cfg.fit_seconds:g}"]
    trainer = Trainer(folder, cfg.seed, cfg.fit_seconds, given, made, output.say)
    gathering = Gathering(cfg.cache)
    rows = []
    with alone_in(folder):
        for definition, entry, device in jobs:
            output.say(f"{definition.name}  {entry.label}, from {', '.join(definition.origins)}")
            found = trainer.checkpoint(definition, entry, gathering.material(definition, entry, device))
            rows.append(table_row(definition.name, found))
            output.say(f"{definition.name}  {said(rows[-1])}")
    output.write(
        cfg.work_dir,
        STUDY,
        document={**made, "checkpoints": rows},
        rows=rows,
        text=f"{output.heading(STUDY, made)}\n{report(rows)}",
    )


@dataclass
class Gathering:
    """Reads records and takes features; what the last checkpoint was made from stays for the next. cache: see
    `featured`."""

    cache: str | None
    _read: dict[tuple[str, ...], Dataset] = field(default_factory=dict)
    _last: tuple[object, Material] | None = None

    def material(self, definition: Definition, entry: Entry, device: Device) -> Material:
        """What the checkpoint is made from. The features are the verifier's own, so that which programs there
        are does not depend on what else is made."""
        key = (definition.data, definition.recorded, definition.tasks, device.name, entry.features)
        if self._last is None or self._last[0] != key:
            self._last = None  # before the next one takes memory
            tasks = by_task(self._dataset(definition), definition.recorded, definition.tasks)
            check_one_machine(tasks, "the records")
            found, _ = featured(tasks, device, entry.features, self.cache, output.say)
            self._last = key, Material(Pool(found), tasks, device.name)
        return self._last[1]

    def _dataset(self, definition: Definition) -> Dataset:
        if definition.data not in self._read:
            dataset, report = read(definition.paths, progress=Reading(output.say))
            output.say(report.summary())
            self._read = {definition.data: dataset}
        return self._read[definition.data]


if __name__ == "__main__":
    sys.exit(main())
