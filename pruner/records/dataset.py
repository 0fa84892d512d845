"""Measured programs of one or more tasks, as columns: what drafts and verifiers are judged on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm.ir import IRModule
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records import storage
from pruner.records.checks import check
from pruner.records.database import plain
from pruner.records.reading import parse, within
from pruner.records.storage import DTYPES
from pruner.records.workloads import block_names, read_module
from pruner.search.materialise import reason_of
from pruner.search.population import UNUSED, Population
from pruner.search.space import Space

# The sketch of a record that has a trace instead of a row.
NO_ROW = -1


@dataclass(frozen=True, eq=False)
class RecordedTask:
    """id: its workload index, or the stem of its log's file. weight: how often the network that it is from
    runs it. sketches: signatures of the sketches that the rows' `sketch_ids` count."""

    id: str
    mod: IRModule
    target: Target
    weight: float = 1.0
    sketches: tuple[str, ...] = ()

    def same_program(self, other: RecordedTask) -> bool:
        """Whether both compute the same for the same target in blocks of the same names, whatever they are
        called: a trace of the one is one of the other."""
        targets = (plain(task.target.export()) for task in (self, other))
        return (
            next(targets) == next(targets)
            and tvm_ffi.structural_equal(self.mod, other.mod)
            and block_names(self.mod) == block_names(other.mod)
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """n records; every column is an array that cannot be written to.

    Raises ConfigError for columns that do not fit together.

    Args:
        tasks: what the programs compute.
        task: int64[n], positions in `tasks`.
        sketch_ids: int64[n], the sketch of a record's row; NO_ROW for a record that has a trace instead.
        decisions: `n x d` int64, the rows as in Population, UNUSED where a sketch has no such column.
        traces: object[n], the trace as JSON text of a record without a row, else None.
        latency_s: float64[n], seconds of a call: the mean over the repeats, and the median where this tuner
            measured; NaN for a failure.
        spread_s: float64[n], standard deviation over the repeats; NaN where there was but one, or none.
        failure: str[n], one of `measure.measurement.FAILURES`; empty for a program that ran.
        cost_s: float64[n], seconds that building and running it took; NaN where nobody kept them.
        order: int64[n], when it was measured: the lower the earlier. It has meaning within a device.
        device: str[n], the machine, with all that makes two machines the same (`Device.fingerprint`).
    """

    tasks: tuple[RecordedTask, ...]
    task: NDArray[np.int64]
    sketch_ids: NDArray[np.int64]
    decisions: NDArray[np.int64]
    traces: NDArray[np.object_]
    latency_s: NDArray[np.float64]
    spread_s: NDArray[np.float64]
    failure: NDArray[np.str_]
    cost_s: NDArray[np.float64]
    order: NDArray[np.int64]
    device: NDArray[np.str_]

    def __post_init__(self) -> None:
        for name in DTYPES:
            column = getattr(self, name).copy()
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        lengths = {name: len(getattr(self, name)) for name in DTYPES}
        if len(set(lengths.values())) != 1:
            raise ConfigError(f"the columns of a data set differ in length: {lengths}.")
        if ((self.task < 0) | (self.task >= len(self.tasks))).any():
            raise ConfigError(f"a record is of none of the {len(self.tasks)} tasks of its data set.")
        known = np.array([len(task.sketches) for task in self.tasks], dtype=np.int64)
        if ((self.sketch_ids < NO_ROW) | (self.sketch_ids >= known[self.task])).any():
            raise ConfigError("a record's row is of a sketch that its task does not name.")
        if (np.isnan(self.latency_s) != (self.failure != "")).any():
            raise ConfigError("a record has either a latency or a failure; one has both or neither.")

    def __len__(self) -> int:
        return len(self.task)

    def __getitem__(self, records: slice | NDArray[np.int64] | NDArray[np.bool_]) -> Dataset:
        """The records of a slice, an index vector or a mask; all tasks stay."""
        return Dataset(self.tasks, *(getattr(self, name)[records] for name in DTYPES))

    def of(self, task: str) -> Dataset:
        """The records of the task with this id. Raises ConfigError when there is no such task."""
        ids = [each.id for each in self.tasks]
        if task not in ids:
            raise ConfigError(f"the data set has no task {task}; it has {', '.join(ids) or 'none'}.")
        position = ids.index(task)
        chosen = self[self.task == position]
        columns = {name: getattr(chosen, name) for name in DTYPES}
        columns["task"] = np.zeros(len(chosen), dtype=np.int64)
        return Dataset((self.tasks[position],), **columns)

    def population(self, space: Space) -> Population:
        """The records of a data set of one task as rows of its space, which may list the sketches in another
        order. Raises ConfigError when a record has no row, or one of a sketch that the space has not."""
        if len(self.tasks) != 1:
            raise ConfigError(f"rows are of one task; the data set has {len(self.tasks)}: select with `of`.")
        if (self.sketch_ids == NO_ROW).any():
            raise ConfigError(
                f"{int((self.sketch_ids == NO_ROW).sum())} records of {self.tasks[0].id} have a trace and no "
                "row: leave them out, or encode their traces."
            )
        known = {sketch.signature: i for i, sketch in enumerate(space.sketches)}
        places = [known.get(signature, NO_ROW) for signature in self.tasks[0].sketches]
        sketch_ids = np.array(places, dtype=np.int64)[self.sketch_ids]
        if (sketch_ids == NO_ROW).any():
            raise ConfigError(
                f"the records of {self.tasks[0].id} belong to sketches that its space here does not have: "
                "they come from another program, target or TVM."
            )
        decisions = np.full((len(self), space.width), UNUSED, dtype=np.int64)
        width = min(space.width, self.decisions.shape[1])
        decisions[:, :width] = self.decisions[:, :width]
        return Population(space, sketch_ids, decisions)

    @property
    def devices(self) -> tuple[str, ...]:
        """The machines that measured, sorted."""
        return tuple(str(device) for device in np.unique(self.device))

    def on(self, device: str) -> Dataset:
        """The records of this machine alone. Raises ConfigError when it measured none of them."""
        if device not in self.devices:
            known = ", ".join(name or "(unnamed)" for name in self.devices) or "none"
            raise ConfigError(f"no record is of device {device or '(unnamed)'}; there are {known}.")
        return self[self.device == device]

    @staticmethod
    def concat(parts: Sequence[Dataset]) -> Dataset:
        """The records of all parts; of one part they come before those of the next, in `order` too.

        Tasks of one id become one, with the sketches of all. Raises ConfigError when such tasks differ in
        module or target.
        """
        tasks: dict[str, RecordedTask] = {}
        for part in parts:
            for task in part.tasks:
                tasks[task.id] = _joined(tasks.get(task.id, task), task)
        places = {id: position for position, id in enumerate(tasks)}
        width = max((part.decisions.shape[1] for part in parts), default=0)
        columns: dict[str, list[NDArray[Any]]] = {name: [] for name in DTYPES}
        latest = 0
        for part in parts:
            for name in DTYPES:
                columns[name].append(getattr(part, name))
            columns["decisions"][-1] = np.full((len(part), width), UNUSED, dtype=np.int64)
            columns["decisions"][-1][:, : part.decisions.shape[1]] = part.decisions
            columns["task"][-1] = np.array([places[task.id] for task in part.tasks], np.int64)[part.task]
            columns["sketch_ids"][-1] = part._sketch_ids_in([tasks[task.id] for task in part.tasks])
            if len(part):
                columns["order"][-1] = part.order - part.order.min() + latest
                latest = int(columns["order"][-1].max()) + 1
        empty = {"decisions": np.empty((0, width), np.int64), "traces": object_column([])}
        joined = {
            name: np.concatenate([empty.get(name, np.empty(0, dtype)), *columns[name]])
            for name, dtype in DTYPES.items()
        }
        return Dataset(tuple(tasks.values()), **joined)

    def _sketch_ids_in(self, tasks: Sequence[RecordedTask]) -> NDArray[np.int64]:
        """The sketch of each row, counted as the tasks of the same positions in `tasks` count them."""
        ids = self.sketch_ids.copy()
        for position, (old, new) in enumerate(zip(self.tasks, tasks, strict=True)):
            if old.sketches != new.sketches:
                # The last entry is that of NO_ROW, -1.
                table = np.array([*(new.sketches.index(name) for name in old.sketches), NO_ROW], np.int64)
                here = self.task == position
                ids[here] = table[ids[here]]
        return ids

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to one file: a .parquet file where it is called so, else .npz. Raises ConfigError when
        the file cannot be written."""
        tasks = [
            {
                "id": task.id,
                "module": tvm.ir.save_json(task.mod),
                "target": plain(task.target.export()),
                "weight": task.weight,
                "sketches": task.sketches,
            }
            for task in self.tasks
        ]
        columns = {name: getattr(self, name) for name in DTYPES}
        columns["traces"] = object_column([trace or "" for trace in self.traces])
        storage.write(Path(path), json.dumps(tasks), columns)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Dataset:
        """What `save` wrote. Raises ConfigError for another file, and for one that holds what no measurement
        gives or TVM must not be given."""
        try:
            text, columns = storage.read(Path(path))
            columns["traces"] = object_column([trace or None for trace in columns["traces"]])
        except ConfigError:
            raise
        except Exception as error:  # the libraries that read files have kinds of their own
            raise ConfigError(
                f"{path} is no data set ({error}). Give a file that was saved by one."
            ) from error
        try:
            dataset = Dataset(_tasks(parse(text)), **columns)
            check(dataset)
        except (ValueError, ConfigError) as error:
            raise ConfigError(
                f"{path} is no sound data set: {error} Give a file that was saved by one."
            ) from error
        return dataset


def _tasks(described: Any) -> tuple[RecordedTask, ...]:
    """Raises ConfigError for what `save` does not write."""
    if not isinstance(described, list) or not all(isinstance(each, dict) for each in described):
        raise ConfigError("its tasks are no list of objects.")
    tasks = tuple(_task(each) for each in described)
    if len({task.id for task in tasks}) < len(tasks):
        raise ConfigError("two of its tasks have one id.")
    return tasks


def _task(described: Mapping[str, Any]) -> RecordedTask:
    id: Any = described.get("id")
    weight: Any = described.get("weight")
    sketches: Any = described.get("sketches")
    if not isinstance(id, str):
        raise ConfigError(f"the id of a task is {str(id)[:40]}; text is needed.")
    if not within(weight, 0, sys.float_info.max):
        raise ConfigError(f"the weight of task {id} is {str(weight)[:40]}; a number from 0 is needed.")
    if not isinstance(sketches, list) or not all(isinstance(sketch, str) for sketch in sketches):
        raise ConfigError(f"the sketches of task {id} are no list of texts.")
    try:
        target = Target(described.get("target"))
    except Exception as error:  # TVM raises its own kinds of error
        raise ConfigError(f"the target of task {id} is none ({reason_of(error)[:200]}).") from error
    return RecordedTask(id, read_module(described.get("module"), id), target, float(weight), tuple(sketches))


def _joined(task: RecordedTask, other: RecordedTask) -> RecordedTask:
    """Two tasks of one id as one."""
    if task is other:
        return task
    if not task.same_program(other):
        raise ConfigError(
            f"two different tasks are called {task.id}: their module or target differs. Rename one."
        )
    more = [name for name in other.sketches if name not in task.sketches]
    return replace(task, sketches=(*task.sketches, *more))


def object_column(values: Sequence[str | None]) -> NDArray[np.object_]:
    """object[n], whatever the values are."""
    column = np.empty(len(values), dtype=np.object_)
    column[:] = values
    return column
