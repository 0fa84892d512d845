"""A sketch: a MetaSchedule trace whose sampling instructions are columns of an integer matrix."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from tvm.s_tir.schedule import Instruction, Trace

from pruner.errors import ConfigError, RejectedError


@dataclass(frozen=True)
class TileGene:
    """A `SamplePerfectTile`: `parts` columns from `start`, factors whose product is `extent`. A
    `max_innermost` of -1 does not limit the last factor."""

    instruction: Instruction
    start: int
    parts: int
    extent: int
    max_innermost: int

    @property
    def width(self) -> int:
        """Columns of the gene."""
        return self.parts


@dataclass(frozen=True)
class CategoryGene:
    """A `SampleCategorical`: one column that indexes `values`, drawn with `probabilities`."""

    width: ClassVar[int] = 1
    instruction: Instruction
    start: int
    values: tuple[int, ...]
    probabilities: tuple[float, ...]


@dataclass(frozen=True)
class LocationGene:
    """A `SampleComputeLocation`: one column; -2 inlines, -1 stays at the root, else a loop index of the
    first consumer. Many values mean the same program until they are resolved."""

    width: ClassVar[int] = 1
    instruction: Instruction
    start: int


Gene = TileGene | CategoryGene | LocationGene


@dataclass(frozen=True)
class Sketch:
    """`genes` stand in the order of their instructions; `width` is their number of columns."""

    trace: Trace
    genes: tuple[Gene, ...]

    @classmethod
    def of(cls, trace: Trace) -> Sketch:
        """The sketch of a trace, whatever its decisions are. Post-processing and dead instructions go."""
        trace = trace.simplified(remove_postproc=True)
        genes: list[Gene] = []
        start = 0
        for instruction in trace.insts:
            gene = _gene(instruction, trace, start)
            if gene is not None:
                genes.append(gene)
                start += gene.width
        return cls(trace, tuple(genes))

    @cached_property
    def width(self) -> int:
        """Columns of a decision row."""
        return sum(gene.width for gene in self.genes)

    @cached_property
    def signature(self) -> str:
        """The instructions without their decisions; sketches with equal signatures are the same."""
        return _signature(self.trace)

    @cached_property
    def _positions(self) -> list[int]:
        """Where the genes' instructions stand in the trace."""
        position = {instruction: i for i, instruction in enumerate(self.trace.insts)}
        return [position[gene.instruction] for gene in self.genes]

    def decided(self, row: NDArray[np.int64]) -> Trace:
        """The trace with a row's decisions.

        Args:
            row: int64, at least `width` long.

        Raises RejectedError when a tile factor is below 1: TVM would divide by it and die by a signal.
        """
        decisions = dict(self.trace.decisions.items())
        values = row.tolist()
        for gene in self.genes:
            if isinstance(gene, TileGene):
                factors = values[gene.start : gene.start + gene.parts]
                if min(factors) < 1:
                    raise RejectedError(
                        f"tile factors {factors} of a loop of {gene.extent}: factors must be at "
                        f"least 1 and their product {gene.extent}."
                    )
                decisions[gene.instruction] = factors
            else:
                decisions[gene.instruction] = values[gene.start]
        return Trace(list(self.trace.insts), decisions)

    def row(self, trace: Trace) -> NDArray[np.int64]:
        """The int64[width] decisions of a trace with this sketch's signature, simplified as `of` does. Tile
        factors are made exact as TVM makes them; compute locations are taken as they stand.

        Raises ConfigError when a decision is missing or has another form.
        """
        row = np.empty(self.width, dtype=np.int64)
        instructions = list(trace.insts)
        for gene, position in zip(self.genes, self._positions, strict=True):
            decision = trace.get_decision(instructions[position])
            if isinstance(gene, TileGene):
                row[gene.start : gene.start + gene.parts] = _exact_tile(gene, decision)
            elif decision is None:
                raise ConfigError(
                    f"the trace does not decide its {gene.instruction.kind.name}; a decided trace is needed."
                )
            else:
                value = int(decision)
                if isinstance(gene, CategoryGene) and not 0 <= value < len(gene.values):
                    raise ConfigError(
                        f"the trace decides {value} among {len(gene.values)} categories {gene.values}."
                    )
                row[gene.start] = value
        return row


def signature_of(trace: Trace) -> str:
    """The signature of the sketch that a decided trace belongs to."""
    return _signature(trace.simplified(remove_postproc=True))


def _signature(trace: Trace) -> str:
    instructions, _ = trace.as_json()
    # Numbers are boxed in traces made in memory and plain in traces read from a file.
    return json.dumps(instructions, default=lambda boxed: boxed.value)


def _gene(instruction: Instruction, trace: Trace, start: int) -> Gene | None:
    kind = str(instruction.kind.name)
    if kind == "SamplePerfectTile":
        factors = [int(factor) for factor in trace.get_decision(instruction)]
        if min(factors) < 1:  # a loop whose length is no number is not tiled
            return None
        parts, max_innermost = (int(attr) for attr in instruction.attrs)
        return TileGene(instruction, start, parts, prod(factors), max_innermost)
    if kind == "SampleCategorical":
        values, probabilities = instruction.attrs
        return CategoryGene(
            instruction, start, tuple(int(v) for v in values), tuple(float(p) for p in probabilities)
        )
    if kind == "SampleComputeLocation":
        return LocationGene(instruction, start)
    return None


def _exact_tile(gene: TileGene, decision: Any) -> list[int]:
    """Factors whose product is the extent: as TVM does, the first one from the right that does not divide
    what is left takes all of it."""
    if decision is None or len(decision) != gene.parts:
        raise ConfigError(
            f"the trace tiles a loop of {gene.extent} with {decision}; {gene.parts} tile factors are needed."
        )
    factors = [int(factor) for factor in decision]
    left = gene.extent
    for i in range(gene.parts - 1, 0, -1):
        if factors[i] < 1:
            raise ConfigError(
                f"the trace tiles a loop of {gene.extent} with {factors}; factors are at least 1."
            )
        if left % factors[i]:
            factors[i] = left
        left //= factors[i]
    factors[0] = left
    return factors
