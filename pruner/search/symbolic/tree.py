"""The tree of programs that a sketch's compute locations open, level by level."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from pruner.search.nest import Loop
from pruner.search.operators import FIRST_LOCATION
from pruner.search.sketch import LocationGene, Sketch
from pruner.search.symbolic.legality import Limits, conditions
from pruner.search.symbolic.locations import Locations
from pruner.search.symbolic.polynomial import Symbols
from pruner.search.symbolic.replay import State
from pruner.search.symbolic.structure import Forms, Structure
from pruner.search.symbolic.verdicts import Verdicts

Ints = NDArray[np.int64]


class Replay:
    """A sketch's trace, replayed from one compute location to the next."""

    def __init__(self, sketch: Sketch) -> None:
        self._symbols = Symbols()
        self._instructions = tuple(sketch.trace.insts)
        genes = {gene.instruction: gene for gene in sketch.genes}
        self._genes = [genes.get(instruction) for instruction in self._instructions]

    def advance(self, state: State, gene: LocationGene | None) -> None:
        """Executes what follows a compute location, or the start, up to the next one or the end."""
        start = 0 if gene is None else self._genes.index(gene) + 1
        for instruction, of in zip(self._instructions[start:], self._genes[start:], strict=True):
            if isinstance(of, LocationGene):
                return
            state.step(instruction, of, self._symbols)


class Level:
    """The programs that stand at one compute location, numbered as rows reach them.

    Args:
        below: where they go with a location.
    """

    def __init__(self, replay: Replay, gene: LocationGene, below: Level | Leaves) -> None:
        self.column = gene.start
        self._replay = replay
        self._gene = gene
        self._block, self._location = gene.instruction.inputs[0], gene.instruction.outputs[0]
        self._below = below
        self._states: list[State] = []
        self._locations: list[Locations] = []
        # Most programs allow the same locations under the same conditions: one rule for many.
        self._rules: list[Locations] = []
        self._rule_numbers: dict[Hashable, int] = {}
        self._rule_of: list[int] = []
        # The number below by program and location, from the first location on; -1 = not reached yet.
        self._table = np.empty((0, 0), dtype=np.int64)

    def add(self, state: State) -> int:
        """The number of a program that arrives here."""
        locations = Locations(state.program, state.block(self._block))
        number = self._rule_numbers.setdefault(locations.key, len(self._rules))
        if number == len(self._rules):
            self._rules.append(locations)
        self._rule_of.append(number)
        self._locations.append(locations)
        self._states.append(state)
        return len(self._states) - 1

    def resolve(self, nodes: Ints, columns: Ints) -> Ints:
        """int64[n], the location TVM uses for each row. nodes: int64[n], the rows' programs here;
        columns: `width x n`, their decisions."""
        wanted = columns[self.column]
        rules = np.array(self._rule_of)[nodes]
        present = np.bincount(rules).nonzero()[0].tolist()
        if len(present) == 1:
            return self._rules[present[0]].resolve(columns, wanted)
        resolved = np.empty(len(wanted), dtype=np.int64)
        for rule in present:
            rows = np.flatnonzero(rules == rule)
            resolved[rows] = self._rules[rule].resolve(columns[:, rows], wanted[rows])
        return resolved

    def descend(self, nodes: Ints, locations: Ints) -> Ints:
        """int64[n], the numbers below of the rows' programs with their resolved locations."""
        if not len(nodes):
            return nodes
        offsets = locations - FIRST_LOCATION
        self._reserve(int(offsets.max()) + 1)
        found = self._table[nodes, offsets]
        new = np.flatnonzero(found < 0)
        if len(new):
            for node, offset in sorted(set(zip(nodes[new].tolist(), offsets[new].tolist(), strict=True))):
                self._table[node, offset] = self._reach(node, offset + FIRST_LOCATION)
            found = self._table[nodes, offsets]
        return found

    def _reserve(self, width: int) -> None:
        rows, columns = len(self._states), max(width, self._table.shape[1])
        if self._table.shape != (rows, columns):
            table = np.full((rows, columns), -1, dtype=np.int64)
            table[: self._table.shape[0], : self._table.shape[1]] = self._table
            self._table = table

    def _reach(self, node: int, location: int) -> int:
        state = self._states[node].clone()
        target: Loop | int = self._locations[node].loop(location) if location >= 0 else location
        state.values[self._location] = target
        self._replay.advance(state, self._gene)
        return self._below.add(state)


class Leaves:
    """The finished programs of a sketch, numbered as rows reach them.

    Args:
        limits: what the target's post-processors allow a thread block.
    """

    def __init__(self, limits: Limits | None) -> None:
        self.forms = Forms()
        self.verdicts = Verdicts()
        self._limits = limits
        self._states: list[State] = []
        self._structures: dict[int, Structure] = {}

    def add(self, state: State) -> int:
        """The number of a finished program."""
        self.verdicts.add(conditions(state.program, self._limits))
        self._states.append(state)
        return len(self._states) - 1

    def structure(self, number: int) -> Structure:
        """The structure of a program."""
        if number not in self._structures:
            self._structures[number] = self.forms.structure(self._states[number].program)
        return self._structures[number]
