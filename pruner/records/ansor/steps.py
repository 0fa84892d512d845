"""Ansor's steps as the structure they build.

Ansor splits a stage first and attaches it later; `compute_at` of today's TVM makes a block's loops anew. So
steps are not replayed one by one: stages are followed to the end, and what they have become is written down
as MetaSchedule's sketches write it (Ansor, OSDI 2020, section 4.1; the steps are those of TVM 0.17's
`src/auto_scheduler/transform_step.cc`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from pruner.records.ansor import script as form
from pruner.records.ansor.dag import StageInfo
from pruner.records.ansor.log import Refused, Untranslated, is_int
from pruner.records.ansor.script import Numbers, Script
from pruner.records.ansor.stage import Axis, Stage, extent_of, fusable

_PARTS = 8  # loops that one split makes at most
_LOOPS = 256  # of all blocks: nests that deep are no programs
_VECTORIZE, _PARALLEL = 2, 3
_THREADS = {4: "vthread.x", 5: "blockIdx.x", 6: "threadIdx.x"}
_LEFT_OUT = {"RF": "a factored reduction", "SA": "aligned storage"}
_UNROLL = "auto_unroll_max_step$"


def translate(
    stages: Sequence[StageInfo], steps: Sequence[list[Any]], *, gpu: bool
) -> tuple[Script, Numbers]:
    """The form and the numbers of the program that the steps make. Raises Refused."""
    state = _State(stages, gpu)
    for position, step in enumerate(steps):
        kind, *values = step
        if kind in _LEFT_OUT:
            raise Untranslated(kind, _LEFT_OUT[kind])
        if kind not in _STEPS:
            raise Refused("unknown step", f"{kind[:20]!r}; known are {', '.join(sorted(_STEPS))}")
        apply, types = _STEPS[kind]
        if len(values) != len(types):
            raise Refused("field count", f"{kind} has {len(values)} values, not {len(types)}")
        for value, accepted in zip(values, types, strict=True):
            if not accepted(value):
                raise Refused("step value", f"{kind} has {str(value)[:40]}")
        apply(state, position, *values)
    return state.finish()


class _State:
    """The stages after the steps so far, and the loop steps of the script they come to."""

    def __init__(self, stages: Sequence[StageInfo], gpu: bool) -> None:
        self.gpu = gpu
        self.stages = [Stage.of(info) for info in stages]
        self.shape: list[form.Step] = []
        self.tiles: list[tuple[int, ...]] = []
        self.splits: dict[int, list[Axis]] = {}
        self.lengths: dict[int, list[int]] = {}
        self.chunks = 0
        self.vector = 0
        self.unroll: int | None = None
        self.made = 0

    def stage(self, index: int) -> Stage:
        if not 0 <= index < len(self.stages):
            raise Refused("index out of range", f"stage {index} of {len(self.stages)}")
        return self.stages[index]

    def new(self, extent: int, reduce: bool = False) -> Axis:
        """A loop of the script."""
        if self.made >= _LOOPS:
            raise Refused("too many loops", f"more than {_LOOPS}")
        self.made += 1
        return Axis(extent, self.made - 1, reduce)

    def touch(self, stage: Stage) -> None:
        """Gives a computation's loops their numbers."""
        if stage.kind == "compute" and not stage.touched:
            stage.touched = True
            for axis in stage.axes:
                axis.number, self.made = self.made, self.made + 1
            self.shape.append(form.Loops(stage.block, tuple(axis.number for axis in stage.axes)))

    def split(self, position: int, at: int, index: int, extent: Any, lengths: list[int], inner: int) -> None:
        stage = self.stage(at)
        self.touch(stage)
        axis = stage.axis(index)
        if min(lengths, default=0) < 1:
            raise Refused("step value", f"SP has lengths {lengths[:_PARTS]}")
        if not inner or len(lengths) >= _PARTS:
            raise Untranslated("SP", f"lengths {lengths[:_PARTS]}, inner to outer {inner}")
        whole, inside = axis.extent, prod(lengths)
        if stage.kind == "fetch":
            if len(lengths) != 1 or len(stage.axes) != 1:
                raise Untranslated("SP", "of a cache read that is not one loop")
            # The extent of a cache read is known once it is attached: Ansor keeps it in the step.
            stage.vector = Axis(lengths[0])
            stage.axes = [Axis(axis.extent), stage.vector]
            return
        if stage.kind != "compute" or axis.number < 0:
            raise Untranslated("SP", f"of the copy of {stage.block}")
        if extent is not None and extent != whole:
            raise Refused("other extent", f"{stage.block} has a loop of {whole}; the step splits {extent}")
        if whole % inside:
            raise Untranslated("SP", f"of {whole} into {lengths}, which leaves a rest")
        factors = [whole // inside, *lengths]
        parts = [self.new(factor, axis.reduce) for factor in factors]
        self.shape.append(form.Tile(axis.number, tuple(part.number for part in parts)))
        self.tiles.append(tuple(factors))
        self.splits[position], self.lengths[position] = parts, lengths
        stage.replace(index, parts)

    def follow_split(self, position: int, at: int, index: int, source: int, count: int) -> None:
        stage = self.stage(at)
        stage.axis(index)
        parts = self.splits.get(source)
        if stage.kind != "copy" or parts is None or not 1 <= count < len(parts):
            raise Untranslated("FSP", f"of {stage.block} after step {source}")
        rest = Axis(prod(part.extent for part in parts[count:]))
        stage.replace(index, [*parts[:count], rest])

    def follow_fused(
        self, position: int, at: int, index: int, sources: list[int], level: int, factor: int
    ) -> None:
        stage = self.stage(at)
        axis = stage.axis(index)
        if any(
            source not in self.lengths or not 0 <= level < len(self.lengths[source]) for source in sources
        ):
            raise Refused("index out of range", f"FFSP follows level {level} of {sources[:_PARTS]}")
        if stage.kind != "fetch" or not factor or axis is stage.vector:
            raise Untranslated("FFSP", f"of {stage.block}")
        threads = Axis(prod(self.lengths[source][level] for source in sources))
        stage.replace(index, [Axis(axis.extent), threads])

    def reorder(self, position: int, at: int, order: list[int]) -> None:
        stage = self.stage(at)
        self.touch(stage)
        if sorted(order) != list(range(len(stage.axes))):
            raise Refused("step value", f"RE has {order[:40]}, no order of {len(stage.axes)} loops")
        stage.axes = [stage.axes[index] for index in order]
        if stage.kind == "compute":
            self.shape.append(form.Reorder(tuple(axis.number for axis in stage.axes)))

    def fuse(self, position: int, at: int, indices: list[int]) -> None:
        stage = self.stage(at)
        self.touch(stage)
        axes = fusable(stage, indices)
        extent = extent_of(axes)
        numbers = tuple(axis.number for axis in axes)
        if stage.kind == "fetch" or not self.gpu:
            made = Axis(extent)
        elif stage.kind == "placeholder" or min(numbers) < 0:
            raise Untranslated("FU", f"of the copy of {stage.block}")
        else:
            made = self.new(extent, any(axis.reduce for axis in axes))
            self.shape.append(form.Fuse(numbers, made.number))
            for axis in axes:
                axis.fused = made
        stage.replace(indices[0], [made], len(axes))

    def annotate(self, position: int, at: int, index: int, kind: int) -> None:
        stage = self.stage(at)
        self.touch(stage)
        axis = stage.axis(index)
        if stage.kind == "fetch":
            self._annotate_fetch(stage, axis, kind)
        elif self.gpu and kind in _THREADS and axis.number >= 0:
            self.shape.append(form.Bind(axis.number, _THREADS[kind]))
        elif not self.gpu and kind == _PARALLEL and index == 0:
            # As for vectors: one bound for all, which what computes the most sets.
            if stage.kind == "copy" or any(each.reduce for each in stage.axes):
                self.chunks = axis.extent
        elif not self.gpu and kind == _VECTORIZE and index == len(stage.axes) - 1:
            # TVM's one bound makes vectors of all statements; the one that computes the most sets it.
            if any(each.reduce for each in stage.axes):
                self.vector = axis.extent
        else:
            raise Untranslated("AN", f"{kind} of loop {index} of {stage.block}")

    def _annotate_fetch(self, stage: Stage, axis: Axis, kind: int) -> None:
        if kind == _VECTORIZE and axis is stage.vector:
            stage.lanes = axis.extent
        elif _THREADS.get(kind) == "threadIdx.x" and axis is not stage.vector and len(stage.axes) > 1:
            stage.shared = True
        else:
            raise Untranslated("AN", f"{kind} of a loop of a cache read")

    def pragma(self, position: int, at: int, index: int, text: str) -> None:
        self.stage(at).axis(index)
        steps = text.removeprefix(_UNROLL)
        if steps == text or not steps.isdecimal() or len(steps) > _PARTS:
            raise Untranslated("PR", text[:40])
        self.unroll = max(self.unroll or 0, int(steps))

    def compute_at(self, position: int, at: int, target: int, index: int) -> None:
        stage, goal = self.stage(at), self.stage(target)
        axis = goal.axis(index)
        if stage is goal or stage.kind in ("placeholder", "copy"):
            raise Untranslated("CA", f"of {stage.block} to {goal.block}")
        if goal.source is stage:
            # The copy's loops down to there are the computation's own, which come first there.
            lead = goal.axes[: index + 1]
            if lead != stage.axes[: index + 1] or any(rest.number >= 0 for rest in goal.axes[index + 1 :]):
                raise Untranslated("CA", f"{stage.block} does not begin as its copy does")
        elif goal.kind == "fetch" or (axis.number < 0 and (goal.touched or goal.kind == "copy")):
            raise Untranslated("CA", f"of {stage.block} to a loop of {goal.block}")
        else:
            self.touch(goal)
        stage.under = goal, axis

    def inline(self, position: int, at: int) -> None:
        stage = self.stage(at)
        if stage.kind != "compute" or stage.touched:
            raise Untranslated("CI", f"of {stage.block}")
        stage.inlined = True

    def compute_root(self, position: int, at: int) -> None:
        self.stage(at).under = None

    def cache_write(self, position: int, at: int, scope: str) -> None:
        stage = self.stage(at)
        if stage.kind != "compute" or stage.touched or any(each.source is stage for each in self.stages):
            raise Untranslated("CHW", f"of {stage.block}")
        stage.scope = scope
        axes = [Axis(axis.extent) for axis in stage.axes if not axis.reduce]
        self.stages.insert(at + 1, Stage("copy", stage.block, axes, source=stage))

    def cache_read(self, position: int, at: int, scope: str, readers: list[int]) -> None:
        stage = self.stage(at)
        if len(readers) != 1 or not self.gpu or stage.kind not in ("placeholder", "compute"):
            raise Untranslated("CHR", f"of {stage.block} for {len(readers)} readers")
        reader = self.stage(readers[0])
        if reader.kind != "compute":
            raise Untranslated("CHR", f"of {stage.block} for the copy of {reader.block}")
        axes = [Axis(axis.extent) for axis in stage.axes if not axis.reduce]
        self.stages.insert(at + 1, Stage("fetch", reader.block, axes, buffer=stage.block, scope=scope))

    def finish(self) -> tuple[Script, Numbers]:
        """The whole script: loops of computations, then what is attached to them, then what is inlined."""
        steps = list(self.shape)
        lanes: list[int] = []
        for stage in self.stages:
            if stage.kind == "copy":
                source = stage.source
                assert source is not None
                steps.append(form.CacheWrite(stage.block, source.attached(stage), source.scope))
        for stage in self.stages:
            if stage.kind == "fetch":
                if not stage.shared:
                    raise Untranslated("CHR", f"threads do not share the copy of {stage.buffer}")
                steps.append(form.Fetch(stage.block, stage.buffer, stage.attached(), stage.scope))
                lanes.append(stage.lanes)
        for stage in reversed(self.stages):
            if stage.kind == "compute" and stage.under is not None and stage.under[0].source is not stage:
                if stage.touched and self.gpu:
                    raise Untranslated("CA", f"{stage.block} has loops of its own")
                steps.append(form.Move(stage.block, stage.attached()))
            elif stage.inlined:
                steps.append(form.Inline(stage.block))
        numbers = Numbers(tuple(self.tiles), tuple(lanes), self.chunks, self.vector, self.unroll or 0)
        return Script(tuple(steps), self.chunks > 0, not self.gpu, self.unroll is not None), numbers


def _list(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _LOOPS and all(map(is_int, value))


def _maybe(value: Any) -> bool:
    return value is None or is_int(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _scope(value: Any) -> bool:
    return value in ("local", "shared", "global")


_Check = Callable[[Any], bool]
_STEPS: dict[str, tuple[Callable[..., None], tuple[_Check, ...]]] = {
    "SP": (_State.split, (is_int, is_int, _maybe, _list, is_int)),
    "FSP": (_State.follow_split, (is_int, is_int, is_int, is_int)),
    "FFSP": (_State.follow_fused, (is_int, is_int, _list, is_int, is_int)),
    "RE": (_State.reorder, (is_int, _list)),
    "FU": (_State.fuse, (is_int, _list)),
    "AN": (_State.annotate, (is_int, is_int, is_int)),
    "PR": (_State.pragma, (is_int, is_int, _text)),
    "CA": (_State.compute_at, (is_int, is_int, is_int)),
    "CI": (_State.inline, (is_int,)),
    "CR": (_State.compute_root, (is_int,)),
    "CHW": (_State.cache_write, (is_int, _scope)),
    "CHR": (_State.cache_read, (is_int, _scope, _list)),
}
