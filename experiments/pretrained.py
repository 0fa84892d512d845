"""Pre-trained checkpoints in studies: scored as they are, never on a task that they were trained on.

A checkpoint's header lists its training tasks by what they compute and for what, not only by name, so that a
task is recognised whatever a data set calls it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from experiments.kin import family_id, program_id
from experiments.splits import Fold
from experiments.units import Maker, Unit, checked
from experiments.watched import Watched
from pruner.costmodel.pretrained import load_verifier
from pruner.costmodel.shipped import find_checkpoint
from pruner.costmodel.verifier import Verifier
from pruner.errors import ConfigError
from pruner.faults import faults_told
from pruner.records.dataset import RecordedTask
from pruner.target import family


def identity(task: RecordedTask) -> dict[str, str]:
    """A task as a checkpoint's header lists it: `name`, and what it is the same task by: `program`, `family`
    (see kin.py) and `target`, its kind and architecture. Cores do not count, as little as the machine: what
    was learnt of a program on one CPU tells of another that runs the same code."""
    attributes = task.target.attrs
    arch = family(attributes.get("arch")) if "arch" in attributes else str(attributes.get("mcpu") or "")
    return {
        "name": task.id,
        "program": program_id(task.mod),
        "family": family_id(task.mod),
        "target": f"{task.target.kind.name} {arch}".rstrip(),
    }


@dataclass(frozen=True, eq=False)
class Pretrained:
    """label: as the checkpoint stands in tables. made: of its header, see experiments/pretrain.py."""

    label: str
    verifier: Verifier
    made: Mapping[str, Any]

    @classmethod
    def of(cls, name_or_path: str) -> Pretrained:
        """Raises ConfigError as `find_checkpoint` and `load_verifier` do, and for a model without weights."""
        verifier, made = load_verifier(find_checkpoint(name_or_path))
        if not verifier.fitted:
            raise ConfigError(f"the checkpoint {name_or_path} holds a model that was never fitted.")
        return cls(f"checkpoint {name_or_path}", verifier, made)

    @property
    def features(self) -> set[str]:
        """All that it sees."""
        return set(self.verifier.features)

    def check_unseen(self, tasks: Sequence[RecordedTask]) -> None:
        """Raises ConfigError, naming them, when tasks that are to be scored, or their kin for the same
        target, are among those it was trained on, and when its header does not tell."""
        try:
            # Of kin, a task that is the same program tells most.
            trained = {(one["family"], one["target"]): one for one in self.made["tasks"]}
            trained |= {(one["program"], one["target"]): one for one in self.made["tasks"] if one["name"]}
            made_by = _release(str(self.made["versions"]["tvm"]))
            if not trained:  # a model that was fitted was trained on something
                raise KeyError("tasks")
        except (KeyError, TypeError) as error:
            raise ConfigError(
                f"{self.label} does not tell which tasks it was trained on, so that none can be scored "
                "fairly. Give a checkpoint of `python -m experiments.pretrain`."
            ) from error
        if made_by != _release(tvm.__version__):
            raise ConfigError(
                f"{self.label} lists its training tasks as TVM {made_by} knows them; this is TVM "
                f"{_release(tvm.__version__)}. Make it again: `python -m experiments.pretrain`."
            )
        seen = []
        for task in map(identity, tasks):
            own = trained.get((task["program"], task["target"]))
            same = own or trained.get((task["family"], task["target"]))
            if same is not None:
                kin = (
                    ""
                    if same.get("program") == task["program"]
                    else ", from which it differs in the epilogue"
                )
                seen.append(f"{task['name']} (its {same['name']}{kin})")
        if seen:
            raise ConfigError(
                f"{self.label} was trained on {len(seen)} of the tasks to be scored: {', '.join(seen)}. "
                "Choose others, or a checkpoint that was trained without them."
            )

    def elsewhere(self, tasks: Sequence[RecordedTask]) -> list[str]:
        """Names of those of the tasks, or their kin, that it was trained on for another target: code that it
        has not seen of a computation that it has."""
        families = {one["family"] for one in self.made["tasks"]}
        return [task.id for task in tasks if identity(task)["family"] in families]

    def unit(self, maker: Maker, fold: Fold, what: str) -> Unit:
        """Its scores of what the fold scores; nothing is fitted."""
        features = maker.pool.features(fold.scored, self.verifier.features)
        with (
            faults_told(f"{self.label}: predict", type(self.verifier)),
            Watched(maker.say, f"{what}  scoring") as predict,
        ):
            scores = self.verifier.predict(features)
        scores = checked(self.label, scores, len(fold.scored), self.verifier)
        return Unit(scores, [], [], 0.0, predict.seconds, 0.0, predict.peak_bytes, 0, maker.commit)


def _release(version: str) -> str:
    """Of `0.27.0.post1`, `0.27`."""
    return ".".join(version.split(".")[:2])
