"""Stages and loops of an Ansor state while its steps are read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from pruner.records.ansor.dag import StageInfo
from pruner.records.ansor.log import Refused, Untranslated


@dataclass(eq=False)
class Axis:
    """One loop of a stage. number: of the script's loop that it is, -1 for a loop that the script does not
    make: those of copies and fetches, and on a CPU fused ones. fused: the loop that it went into."""

    extent: int
    number: int = -1
    reduce: bool = False
    fused: Axis | None = None

    def final(self) -> Axis:
        """The loop that has taken this one in."""
        axis = self
        while axis.fused is not None:
            axis = axis.fused
        return axis


@dataclass(eq=False)
class Stage:
    """kind: a placeholder, a computation, the copy that a cache write leaves behind, or a fetch (a cache
    read). block: the block's name in the program; for a copy that of the computation, for a fetch that of its
    reader. scope: of the memory that a computation or a fetch writes. touched: its loops have numbers.
    under: the loop that it is attached to, and whose that is.

    source: of a copy, what it copies. buffer, vector, lanes, shared: of a fetch, what it reads, its innermost
    loop, how many elements a thread moves at once, whether threads share the work."""

    kind: Literal["placeholder", "compute", "copy", "fetch"]
    block: str
    axes: list[Axis]
    scope: str = ""
    touched: bool = False
    inlined: bool = False
    under: tuple[Stage, Axis] | None = None
    source: Stage | None = None
    buffer: str = ""
    vector: Axis | None = None
    lanes: int = 1
    shared: bool = False

    @classmethod
    def of(cls, info: StageInfo) -> Stage:
        """A stage that no step has changed."""
        axes = [Axis(extent) for extent in info.spatial]
        axes += [Axis(extent, reduce=True) for extent in info.reduce]
        return cls("placeholder" if info.placeholder else "compute", info.name, axes)

    def axis(self, index: int) -> Axis:
        """One of its loops. Raises Refused."""
        if not 0 <= index < len(self.axes):
            raise Refused("index out of range", f"loop {index} of {self.block}, which has {len(self.axes)}")
        return self.axes[index]

    def attached(self, goal: Stage | None = None) -> int:
        """The script's loop that it is under; if there is a goal, one of the goal's. Raises Refused."""
        if self.under is None or (goal is not None and self.under[0] is not goal):
            raise Untranslated("CA", f"{self.block} is not attached to its copy or reader")
        number = self.under[1].final().number
        if number < 0:
            raise Untranslated("CA", f"{self.block} is under a loop that was fused")
        return number

    def replace(self, index: int, axes: list[Axis], count: int = 1) -> None:
        """Puts loops in the place of `count` others."""
        self.axes[index : index + count] = axes


def fusable(stage: Stage, indices: list[int]) -> list[Axis]:
    """The loops at the indices, which must be neighbours in order. Raises Refused."""
    axes = [stage.axis(index) for index in indices]
    if not axes or indices != list(range(indices[0], indices[0] + len(indices))):
        raise Refused("step value", f"FU has loops {indices}, which are no neighbours")
    return axes


def extent_of(axes: list[Axis]) -> int:
    """The extent of loops that are fused."""
    return prod(axis.extent for axis in axes)
