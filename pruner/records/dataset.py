"""Measured programs of one or more tasks, as columns: what drafts and verifiers are judged on."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm.ir import IRModule
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.records.database import plain
from pruner.search.population import UNUSED, Population
from pruner.search.space import Space

FORMAT = 1
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
        latency_s: float64[n], mean seconds of a call over the repeats; NaN for a failure.
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
        for name in _COLUMNS:
            column = getattr(self, name).copy()
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        lengths = {name: len(getattr(self, name)) for name in _COLUMNS}
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
        return Dataset(self.tasks, *(getattr(self, name)[records] for name in _COLUMNS))

    def of(self, task: str) -> Dataset:
        """The records of the task with this id. Raises ConfigError when there is no such task."""
        ids = [each.id for each in self.tasks]
        if task not in ids:
            raise ConfigError(f"the data set has no task {task}; it has {', '.join(ids) or 'none'}.")
        position = ids.index(task)
        chosen = self[self.task == position]
        columns = {name: getattr(chosen, name) for name in _COLUMNS}
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to one .npz file. Raises ConfigError when the file cannot be written."""
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
        columns = {name: getattr(self, name) for name in _COLUMNS}
        columns["traces"] = np.array([trace or "" for trace in self.traces], dtype=np.str_)
        try:
            with Path(path).open("wb") as file:
                np.savez_compressed(file, format=FORMAT, tasks=json.dumps(tasks), **columns)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}. Choose another file.") from error

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Dataset:
        """What `save` wrote. Raises ConfigError for another file."""
        try:
            with np.load(path, allow_pickle=False) as file:
                if int(file["format"]) != FORMAT:
                    raise ConfigError(f"{path} has format {file['format']}; {FORMAT} is read.")
                columns: dict[str, Any] = {name: file[name] for name in _COLUMNS}
                described = json.loads(str(file["tasks"]))
        except (OSError, EOFError, ValueError, TypeError, KeyError, BadZipFile) as error:
            raise ConfigError(
                f"{path} is no data set ({error}). Give a file that was saved by one."
            ) from error
        columns["traces"] = object_column([str(trace) or None for trace in columns["traces"]])
        tasks = [
            RecordedTask(
                task["id"],
                tvm.ir.load_json(task["module"]),
                Target(task["target"]),
                task["weight"],
                tuple(task["sketches"]),
            )
            for task in described
        ]
        return Dataset(tuple(tasks), **columns)


_COLUMNS = tuple(field.name for field in fields(Dataset) if field.name != "tasks")


def object_column(values: Sequence[str | None]) -> NDArray[np.object_]:
    """object[n], whatever the values are."""
    column = np.empty(len(values), dtype=np.object_)
    column[:] = values
    return column
