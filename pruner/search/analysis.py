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

from pruner.search.nest import Nest
from pruner.search.sketch import LocationGene, Sketch
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
    """

    def __init__(self, mod: IRModule, sketch: Sketch) -> None:
        replay = Replay(sketch)
        self._leaves = Leaves()
        self._levels: list[Level] = []
        below: Level | Leaves = self._leaves
        for gene in reversed(sketch.genes):
            if isinstance(gene, LocationGene):
                below = Level(replay, gene, below)
                self._levels.insert(0, below)
        state = State(parse_program(mod), {})
        replay.advance(state, None)
        below.add(state)

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

        dynamic_loop: a moved block would need a loop whose extent depends on outer loops."""
        return {"dynamic_loop": self._leaves.legal(self._walk(decisions), decisions)}

    def _walk(self, decisions: Ints) -> Ints:
        """int64[n], the number of each row's finished program; `decisions` are resolved."""
        nodes = np.zeros(len(decisions), dtype=np.int64)
        for level in self._levels:
            nodes = level.descend(nodes, decisions[:, level.column])
        return nodes
