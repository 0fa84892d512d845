"""Recorded traces of one task as rows of the sketches that they belong to.

Traces that differ in their decisions alone have one sketch. TVM replays the first of them, which proves that
its primitives take the sketch and shows how they read it; the decisions of the others are checked against
the sketch and repaired as TVM repairs them. Those of a sketch that arrays cannot express are replayed one by
one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from pruner._tvm import fast_intrinsics
from pruner.cores import usable_cpus
from pruner.records.dataset import NO_ROW, object_column
from pruner.records.trace_upgrade import Decisions, Template
from pruner.search.analysis import SketchAnalysis, UnsupportedSketch
from pruner.search.materialise import reason_of
from pruner.search.population import UNUSED
from pruner.search.sketch import Sketch, TileGene
from pruner.workload import Task

# Traces of one sketch that are replayed before it is given up.
_ATTEMPTS = 8

Upgraded = tuple[Template, Decisions]
Ints = NDArray[np.int64]


@dataclass
class Rows:
    """n traces of a task. sketches: signatures, which `sketch_ids` count; NO_ROW for a trace that has none.

    decisions: `n x d` int64, UNUSED where a sketch has no such column. traces: object[n], JSON text where
    there is no row, else None. refused: why TVM does not replay a trace, by position.
    """

    sketches: tuple[str, ...]
    sketch_ids: Ints
    decisions: Ints
    traces: NDArray[np.object_]
    refused: dict[int, str]


def encode(task: Task, traces: Sequence[Upgraded]) -> Rows:
    """Rows of upgraded traces."""
    groups: dict[str, list[int]] = {}
    for position, (template, _) in enumerate(traces):
        groups.setdefault(template.text, []).append(position)
    if any('"Tensorize"' in text for text in groups):
        fast_intrinsics(task.target)
    n = len(traces)
    rows = Rows((), np.full(n, NO_ROW), np.empty((n, 0), np.int64), object_column([None] * n), {})
    found: list[tuple[list[int], Ints]] = []
    numbers: dict[str, int] = {}
    for members in groups.values():
        group = _Group(task, [traces[position] for position in members])
        rows.refused |= {members[i]: reason for i, reason in group.refused.items()}
        kept = [position for i, position in enumerate(members) if i not in group.refused]
        if group.sketch is not None:
            rows.sketch_ids[kept] = numbers.setdefault(group.sketch.signature, len(numbers))
            found.append((kept, group.rows))
        else:
            for position in kept:
                rows.traces[position] = json.dumps(as_json(traces[position]))
    rows.sketches = tuple(numbers)
    width = max((matrix.shape[1] for _, matrix in found), default=0)
    rows.decisions = np.full((n, width), UNUSED, dtype=np.int64)
    for positions, matrix in found:
        rows.decisions[positions, : matrix.shape[1]] = matrix
    return rows


class _Group:
    """Traces of one template. sketch: None where they have no rows; rows: of those that are not refused."""

    def __init__(self, task: Task, traces: Sequence[Upgraded]) -> None:
        self.task = task
        self.sketch: Sketch | None = None
        self.rows: Ints = np.empty((0, 0), np.int64)
        self.refused: dict[int, str] = {}
        schedule = self._first(traces)
        if schedule is None:
            return
        sketch = Sketch.of(schedule.trace)
        sampled = [i for i in sketch.trace.insts if str(i.kind.name).startswith("Sample")]
        if len(sampled) != len(
            sketch.genes
        ):  # a loop without a fixed length is tiled, which no column is for
            self._replay(traces)
            return
        self.sketch = sketch
        place = {instruction: i for i, instruction in enumerate(schedule.trace.insts)}
        rows = _matrix(sketch, [place[gene.instruction] for gene in sketch.genes], traces)
        resolved = self._resolved(sketch, rows)
        self.rows = self._replay(traces) if resolved is None else resolved

    def _first(self, traces: Sequence[Upgraded]) -> Schedule | None:
        """The schedule of the first trace that TVM replays. Where it refuses as many as are tried, it is
        taken to refuse all."""
        reason = ""
        for trace in traces[:_ATTEMPTS]:
            schedule = replayed(self.task, as_json(trace))
            if isinstance(schedule, Schedule):
                return schedule
            reason = reason or schedule
        self.refused = dict.fromkeys(range(len(traces)), reason)
        return None

    def _replay(self, traces: Sequence[Upgraded]) -> Ints:
        """Replays each trace, in threads, since TVM works without Python's lock. The rows of a sketch that
        has them, decisions repaired."""
        with ThreadPoolExecutor(len(usable_cpus())) as pool:
            schedules = list(pool.map(lambda trace: replayed(self.task, as_json(trace)), traces))
        self.refused = {i: s for i, s in enumerate(schedules) if isinstance(s, str)}
        if self.sketch is None:
            return np.empty((0, 0), np.int64)
        rows = [
            self.sketch.row(schedule.trace.simplified(remove_postproc=True))
            for schedule in schedules
            if isinstance(schedule, Schedule)
        ]
        return np.array(rows, dtype=np.int64).reshape(len(rows), self.sketch.width)

    def _resolved(self, sketch: Sketch, rows: Ints) -> Ints | None:
        """The rows with the compute locations that TVM takes; None where arrays cannot tell."""
        try:
            analysis = SketchAnalysis(self.task.mod, sketch, self.task.target)
            resolved = analysis.resolve(rows)
            for _ in analysis.nests(resolved[:1]):
                pass
        except UnsupportedSketch:
            return None
        return resolved


def _matrix(sketch: Sketch, places: Sequence[int], traces: Iterable[Upgraded]) -> Ints:
    """`n x width` int64, the decisions of the instructions at `places`; tile factors are made exact, as
    `Sketch.row` does it for one."""
    listed = [
        [
            value
            for gene, place in zip(sketch.genes, places, strict=True)
            for value in (decisions[place] if isinstance(gene, TileGene) else (decisions[place],))
        ]
        for _, decisions in traces
    ]
    rows = np.array(listed, dtype=np.int64).reshape(len(listed), sketch.width)
    for gene in sketch.genes:
        if isinstance(gene, TileGene):
            left = np.full(len(rows), gene.extent, dtype=np.int64)
            for column in range(gene.start + gene.parts - 1, gene.start, -1):
                factor = rows[:, column]
                rows[:, column] = np.where(left % factor == 0, factor, left)
                left //= rows[:, column]
            rows[:, gene.start] = left
    return rows


def as_json(trace: Upgraded) -> list[Any]:
    """The trace as TVM writes it: `[instructions, decisions]`."""
    template, decisions = trace
    return [template.instructions, [list(item) for item in sorted(decisions.items())]]


def replayed(task: Task, trace: list[Any]) -> Schedule | str:
    """The schedule of a trace as JSON values, or why there is none. TVM trusts them: they must have passed
    `upgrade` and `decide`."""
    schedule = Schedule(task.mod)
    try:
        Trace.apply_json_to_schedule(trace, schedule)
    except Exception as error:  # TVM raises its own kinds of error
        return reason_of(error)
    return schedule
