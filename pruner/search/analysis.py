"""What a sketch's decisions make of its loops, for a whole matrix of decisions at once.

The trace is replayed once per structure, not per row: everything up to a compute location is shared, and
every resolved location opens a branch of its own, made when rows first take it and kept from then on. All
rows walk down that tree together, one compute location at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from tvm.ir import IRModule
from tvm.target import Target

from pruner.search.nest import Extent, Nest
from pruner.search.sketch import LocationGene, Sketch
from pruner.search.symbolic.legality import REASONS, Limits
from pruner.search.symbolic.program import UnsupportedSketch, parse_program
from pruner.search.symbolic.replay import State
from pruner.search.symbolic.structure import Sheet
from pruner.search.symbolic.tree import Leaves, Level, Replay

__all__ = ["SketchAnalysis", "UnsupportedSketch"]

Ints = NDArray[np.int64]


class SketchAnalysis:
    """Replays a sketch's trace on loop nests whose extents are vectors, one entry per row.

    Raises UnsupportedSketch, with the reason, when an instruction or the program has no symbolic form;
    a location that only some rows take is replayed, and can raise, when rows first take it.

    Args:
        target: what the program is for; on a GPU it limits what a thread block may have.
    """

    def __init__(self, mod: IRModule, sketch: Sketch, target: Target) -> None:
        replay = Replay(sketch)
        self._leaves = Leaves(Limits.of(target))
        self._levels: list[Level] = []
        below: Level | Leaves = self._leaves
        for gene in reversed(sketch.genes):
            if isinstance(gene, LocationGene):
                below = Level(replay, gene, below)
                self._levels.insert(0, below)
        state = State(parse_program(mod), {})
        replay.advance(state, None)
        below.add(state)

    @property
    def conditions(self) -> list[Extent] | None:
        """What makes a row legal, as 0/1 values of the columns, the cheap ones first; None where that depends
        on compute locations."""
        return None if self._levels else self._leaves.verdicts.of(0)

    def resolve(self, decisions: Ints) -> Ints:
        """`n x sketch.width` decisions with every compute location replaced by the one TVM will use."""
        resolved = decisions.copy()
        columns = np.ascontiguousarray(decisions.T)
        nodes = np.zeros(len(decisions), dtype=np.int64)
        for level in self._levels:
            locations = level.resolve(nodes, columns)
            resolved[:, level.column] = locations
            if level is not self._levels[-1]:
                nodes = level.descend(nodes, locations)
        return resolved

    def nests(self, decisions: Ints) -> Iterator[tuple[Ints, Nest]]:
        """Row groups that share their resolved locations, each with its nest; `decisions` are resolved."""
        leaves = self._walk(decisions)
        order = np.argsort(leaves, kind="stable")
        present, starts = np.unique(leaves[order], return_index=True)
        structures = [self._leaves.structure(leaf) for leaf in present.tolist()]
        sheet = Sheet(self._leaves.forms, np.ascontiguousarray(decisions.T[:, order]))
        stops = [*starts.tolist()[1:], len(order)]
        for structure, start, stop in zip(structures, starts.tolist(), stops, strict=False):
            yield order[start:stop], sheet.nest(structure, start, stop)

    def legal(self, decisions: Ints) -> dict[str, NDArray[np.bool_]]:
        """By reason of rejection, which rows pass; all must hold for TVM to accept. `decisions` are resolved.

        unwritten: a block reads what no block writes.
        threads: a block gets too few or too many threads, or a kernel's blocks differ in theirs.
        pipeline: a software-pipelined loop has fewer than two turns.
        shared_memory: a kernel's buffers exceed what a thread block has.
        dynamic_loop: a moved block would need a loop whose extent depends on outer loops."""
        leaves = self._walk(decisions)
        return {reason: self._leaves.verdicts.passes(reason, leaves, decisions) for reason in REASONS}

    def accepts(self, decisions: Ints) -> NDArray[np.bool_]:
        """bool[n], which rows pass for every reason, at less cost than `legal`. `decisions` are resolved."""
        return self._leaves.verdicts.accepts(self._walk(decisions), decisions)

    def _walk(self, decisions: Ints) -> Ints:
        """int64[n], the number of each row's finished program; `decisions` are resolved."""
        nodes = np.zeros(len(decisions), dtype=np.int64)
        for level in self._levels:
            nodes = level.descend(nodes, decisions[:, level.column])
        return nodes
