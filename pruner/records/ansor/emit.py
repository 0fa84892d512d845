"""A script as a trace of today's TVM, and its numbers as a row of the trace's sketch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, Trace

from pruner.errors import RejectedError
from pruner.records.ansor import script as form
from pruner.records.ansor.script import Numbers, Script
from pruner.search.materialise import reason_of
from pruner.search.sketch import Sketch

_SEED = 1
# MetaSchedule's own categories, to which those of a log are added.
_LANES = (1, 2, 3, 4)
_UNROLL_GPU = (0, 16, 32, 64, 128, 256, 512, 1024)
_UNROLL_CPU = (0, 16, 64, 512)


@dataclass(frozen=True)
class Choices:
    """What the sampled categories of a task choose among, in ascending order."""

    lanes: tuple[int, ...]
    parallel: tuple[int, ...]
    vector: tuple[int, ...]
    unroll: tuple[int, ...]

    @classmethod
    def of(cls, programs: Iterable[Numbers], *, gpu: bool) -> Choices:
        """All that the programs of a task chose, with what MetaSchedule would choose among."""
        chosen = list(programs)
        return cls(
            lanes=_sorted((*_LANES, *(lanes for each in chosen for lanes in each.lanes))),
            parallel=_sorted(map(_bound, (each.parallel for each in chosen))),
            vector=_sorted(map(_lanes, (each.vector for each in chosen))),
            unroll=_sorted((*(_UNROLL_GPU if gpu else _UNROLL_CPU), *(each.unroll for each in chosen))),
        )

    def row(self, script: Script, numbers: Numbers) -> NDArray[np.int64]:
        """The decisions of a program, in the order in which `emit` samples."""
        row = [factor for tile in numbers.tiles for factor in tile]
        row += [self.lanes.index(lanes) for lanes in numbers.lanes]
        if script.spreads:
            row.append(self.parallel.index(_bound(numbers.parallel)))
        if script.vectors:
            row.append(self.vector.index(_lanes(numbers.vector)))
        if script.unrolls:
            row.append(self.unroll.index(numbers.unroll))
        return np.array(row, dtype=np.int64)


def emit(mod: IRModule, script: Script, numbers: Numbers, choices: Choices) -> Sketch:
    """The sketch of a script, made by scheduling one program of it. Raises RejectedError when one of TVM's
    primitives refuses, or when the sketch would not take the program's row."""
    schedule = Schedule(mod, seed=_SEED)
    try:
        _Emitter(schedule, choices).run(script, numbers)
    except Exception as error:  # TVM raises its own kinds of error
        raise RejectedError(f"a schedule primitive refused: {reason_of(error)}") from error
    sketch = Sketch.of(schedule.trace)
    row = choices.row(script, numbers)
    if len(row) != sketch.width or (sketch.row(sketch.trace) != row).any():
        taken = sketch.row(sketch.trace).tolist()
        raise RejectedError(f"other decisions: the trace takes {taken} for {row.tolist()}")
    return sketch


def replay(mod: IRModule, sketch: Sketch, row: NDArray[np.int64]) -> Schedule:
    """The schedule of a row before post-processing. Raises RejectedError when a primitive refuses it, or
    repairs a decision of it."""
    schedule = Schedule(mod, seed=_SEED)
    try:
        sketch.decided(row).apply_to_schedule(schedule, remove_postproc=True)
    except Exception as error:  # as above
        raise RejectedError(f"a schedule primitive refused: {reason_of(error)}") from error
    trace: Trace = schedule.trace.simplified(remove_postproc=True)
    if (sketch.row(trace) != row).any():
        raise RejectedError(f"repaired decisions: TVM makes {sketch.row(trace).tolist()} of {row.tolist()}")
    return schedule


class _Emitter:
    """Writes a script's steps to a schedule."""

    def __init__(self, schedule: Schedule, choices: Choices) -> None:
        self.schedule = schedule
        self.choices = choices
        self.loops: dict[int, LoopRV] = {}

    def run(self, script: Script, numbers: Numbers) -> None:
        tiles, lanes = iter(numbers.tiles), iter(numbers.lanes)
        for step in script.steps:
            match step:
                case form.Tile():
                    self._tile(step, next(tiles))
                case form.Fetch():
                    self._fetch(step, next(lanes))
                case _:
                    self._shape(step)
        root = self.schedule.get_sblock("root")
        if script.spreads:
            self._bound(root, "parallel", self.choices.parallel, _bound(numbers.parallel))
        if script.vectors:
            self._bound(root, "vectorize", self.choices.vector, _lanes(numbers.vector))
        if script.unrolls:
            self._bound(root, "unroll_explicit", self.choices.unroll, numbers.unroll)

    def _shape(self, step: form.Step) -> None:
        schedule, loops = self.schedule, self.loops
        match step:
            case form.Loops(block, made):
                loops.update(zip(made, schedule.get_loops(schedule.get_sblock(block)), strict=True))
            case form.Reorder(order):
                schedule.reorder(*(loops[number] for number in order))
            case form.Fuse(parts, number):
                loops[number] = schedule.fuse(*(loops[part] for part in parts))
            case form.Bind(number, thread):
                schedule.bind(loops[number], thread)
            case form.CacheWrite(block, number, scope):
                copy = schedule.cache_write(schedule.get_sblock(block), 0, scope)
                schedule.reverse_compute_at(copy, loops[number], preserve_unit_loops=True)
            case form.Move(block, number):
                producer = schedule.get_sblock(block)
                schedule.compute_at(producer, loops[number], preserve_unit_loops=True)
            case form.Inline(block):
                schedule.compute_inline(schedule.get_sblock(block))

    def _tile(self, step: form.Tile, factors: Sequence[int]) -> None:
        loop = self.loops[step.loop]
        sampled = self.schedule.sample_perfect_tile(
            loop, n=len(factors), max_innermost_factor=-1, decision=list(factors)
        )
        self.loops.update(zip(step.made, self.schedule.split(loop, sampled), strict=True))

    def _fetch(self, step: form.Fetch, lanes: int) -> None:
        schedule = self.schedule
        reader = schedule.get_sblock(step.block)
        regions = schedule.get(reader).reads
        [index] = [i for i, region in enumerate(regions) if str(region.source.name) == step.buffer]
        copy = schedule.cache_read(reader, index, step.scope, [reader])
        schedule.compute_at(copy, self.loops[step.loop], preserve_unit_loops=True)
        schedule.fuse(*schedule.get_loops(copy)[-len(regions[index].region) :])
        self._bound(copy, "cooperative_fetch", self.choices.lanes, lanes)

    def _bound(self, block: object, name: str, choices: Sequence[int], chosen: int) -> None:
        probabilities = [1 / len(choices)] * len(choices)
        sampled = self.schedule.sample_categorical(
            list(choices), probabilities, decision=choices.index(chosen)
        )
        self.schedule.annotate(block, f"meta_schedule.{name}", sampled)


def _sorted(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(values)))


def _bound(chunks: int) -> int:
    """TVM's bound that spreads just so many iterations: it fuses loops until they are more than the bound."""
    return max(chunks - 1, 0)


def _lanes(vector: int) -> int:
    """TVM's bound that makes vectors of just so many lanes; 0 makes none. (A post-processor never ends where
    it meets -1, which stands for no bound there.)"""
    return vector if vector > 1 else 0
