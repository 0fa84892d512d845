"""What a sketch's decisions make of its loops, for a whole matrix of decisions at once.

The trace is replayed once per structure, not per row: everything up to a compute location is shared, and
every resolved location opens a branch of its own, made when rows first take it and kept from then on.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from tvm.ir import IRModule

from pruner.search.nest import Nest
from pruner.search.sketch import LocationGene, Sketch
from pruner.search.symbolic.locations import Locations
from pruner.search.symbolic.polynomial import Symbols
from pruner.search.symbolic.program import UnsupportedSketch, parse_program
from pruner.search.symbolic.replay import State
from pruner.search.symbolic.template import Template

__all__ = ["SketchAnalysis", "UnsupportedSketch"]

_Rows = NDArray[np.int64]


class SketchAnalysis:
    """Replays a sketch's trace on loop nests whose extents are vectors, one entry per row.

    Raises UnsupportedSketch, with the reason, when an instruction or the program has no symbolic form;
    a location that only some rows take is replayed, and can raise, when rows first take it.
    """

    def __init__(self, mod: IRModule, sketch: Sketch) -> None:
        self._instructions = tuple(sketch.trace.insts)
        self._genes = {gene.instruction: gene for gene in sketch.genes}
        self._symbols = Symbols()
        self._root = _Node(self, State(parse_program(mod), {}), 0)

    def resolve(self, decisions: NDArray[np.int64]) -> NDArray[np.int64]:
        """`n x sketch.width` decisions with every compute location replaced by the one TVM will use."""
        resolved = decisions.copy()
        columns = np.ascontiguousarray(decisions.T)
        for _ in self._walk(self._root, columns, np.arange(len(decisions)), resolved):
            pass
        return resolved

    def nests(self, decisions: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Nest]]:
        """Row groups that share their resolved locations, each with its nest; `decisions` are resolved."""
        columns = np.ascontiguousarray(decisions.T)
        for rows, leaf, part in self._walk(self._root, columns, np.arange(len(decisions)), None):
            yield rows, leaf.template.nest(part)

    def legal(self, decisions: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
        """By reason of rejection, which rows pass; all must hold for TVM to accept. `decisions` are resolved.

        dynamic_loop: a moved block would need a loop whose extent depends on outer loops."""
        passes = np.ones(len(decisions), dtype=np.bool_)
        columns = np.ascontiguousarray(decisions.T)
        for rows, leaf, part in self._walk(self._root, columns, np.arange(len(decisions)), None):
            passes[rows] = leaf.template.legal(part)
        return {"dynamic_loop": passes}

    def _walk(
        self, node: _Node, columns: NDArray[np.int64], rows: _Rows, resolved: NDArray[np.int64] | None
    ) -> Iterator[tuple[_Rows, _Node, NDArray[np.int64]]]:
        """Leaves of the tree of locations with their rows and those rows' columns. With `resolved`, the
        locations are resolved on the way and written there; without, they are taken as they are."""
        if not len(rows):
            return
        if node.gene is None:
            yield rows, node, columns
            return
        assert node.locations is not None
        wanted = columns[node.gene.start]
        if resolved is not None:
            wanted = node.locations.resolve(columns, wanted)
            resolved[rows, node.gene.start] = wanted
            if node.last:
                return
        low = int(wanted.min())
        counts = np.bincount(wanted - low)
        present = counts.nonzero()[0]
        if len(present) == 1:
            yield from self._walk(node.child(low), columns, rows, resolved)
            return
        order = np.argsort(wanted, kind="stable")
        ends = np.cumsum(counts)
        for value in present.tolist():
            part = order[ends[value] - counts[value] : ends[value]]
            yield from self._walk(node.child(value + low), columns[:, part], rows[part], resolved)


class _Node:
    """The replay up to the next compute location, or to the end."""

    def __init__(self, analysis: SketchAnalysis, state: State, start: int) -> None:
        self._analysis = analysis
        self._state = state
        self._children: dict[int, _Node] = {}
        self._template: Template | None = None
        self.gene: LocationGene | None = None
        self.locations: Locations | None = None
        instructions, genes = analysis._instructions, analysis._genes
        for i in range(start, len(instructions)):
            gene = genes.get(instructions[i])
            if isinstance(gene, LocationGene):
                self.gene, self._next = gene, i + 1
                self.locations = Locations(state.program, state.block(instructions[i].inputs[0]))
                later = (genes.get(instruction) for instruction in instructions[i + 1 :])
                self.last = not any(isinstance(other, LocationGene) for other in later)
                return
            state.step(instructions[i], gene, analysis._symbols)

    def child(self, location: int) -> _Node:
        """The replay that goes on with a resolved location."""
        if location not in self._children:
            assert self.gene is not None
            assert self.locations is not None
            state = self._state.clone()
            target = self.locations.loop(location) if location >= 0 else location
            state.values[self.gene.instruction.outputs[0]] = target
            self._children[location] = _Node(self._analysis, state, self._next)
        return self._children[location]

    @property
    def template(self) -> Template:
        """The finished program, at a leaf."""
        if self._template is None:
            self._template = Template(self._state.program)
        return self._template
