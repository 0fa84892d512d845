"""The schedule primitives of a candidate, a row each, as TLP's cost model reads them (TLP, ASPLOS'23).

Nothing is materialised. The rows of a sketch differ in its decisions alone, so a sketch is read once, into a
template, and the decisions of a population are written into it as arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.features.rows import by_sketch
from pruner.search.candidate import Candidate
from pruner.search.population import Population
from pruner.search.sketch import CategoryGene, Gene, Sketch, TileGene

# What the schedule rules of TVM make for a CPU, for CUDA and for tensor cores; anything else is "other".
KINDS = (
    *("Split", "Fuse", "Reorder", "Bind", "Unroll", "Annotate", "Unannotate"),
    *("CacheRead", "CacheWrite", "SetScope", "ComputeAt", "ReverseComputeAt"),
    *("ComputeInline", "ReverseComputeInline", "RFactor"),
    *("ReIndex", "TransformLayout", "TransformBlockLayout", "Blockize"),
)
_OTHER = len(KINDS)

# A word's number is its place here, from 1; of another word, the number behind the last.
WORDS = (
    *(f"{thread}.{axis}" for thread in ("blockIdx", "vthread", "threadIdx") for axis in "xyz"),
    *("global", "shared", "shared.dyn", "local"),
    *("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"),
    *("SSRSRS", "SSSRRSRS"),
    "meta_schedule.tiling_structure",
    *("meta_schedule.thread_extent_low_inclusive", "meta_schedule.thread_extent_high_inclusive"),
    *("meta_schedule.cooperative_fetch", "meta_schedule.parallel", "meta_schedule.vectorize"),
    *("meta_schedule.unroll_explicit", "meta_schedule.random_compute_producer"),
    *("meta_schedule.auto_tensorize", "meta_schedule.auto_tensorize_init", "warp_execution"),
    *("software_pipeline_stage", "software_pipeline_order", "software_pipeline_async_stages"),
)
_WORD = {word: place for place, word in enumerate(WORDS, 1)}

# Rows. TLP keeps 25 on a CPU and 40 on a GPU. TVM's operator set has at most 18 and 37, winograd convolutions
# up to 62, matrix products on tensor cores 71. The end of a trace decides fetches and unrolling, so that what
# is cropped are decisions.
LENGTHS = {"cpu": 25, "gpu": 72}
# A split into five and its two flags. Only Reorder has more, which follows from the tiling structure.
NUMBERS = 8

_REFERENCE = re.compile(r"[blv](\d+)")
# A sampling instruction's own numbers stand where what it samples is used.
_NO_PRIMITIVE = ("Get", "Sample", "EnterPostproc")


class PrimitiveFeatures(FeatureExtractor):
    """A row per schedule primitive, in the order of the trace: its kind and its numbers; zeros fill up.

    TVM's trace also has instructions that look a block or a loop up and others that sample a number. They
    change nothing, Ansor has no such steps, and so they have no row: a sampled number stands where a
    primitive uses it. The numbers are the primitive's attributes, of which a kind has a fixed number, and
    then its inputs, lists opened: a block or loop is the number that TVM's trace gives it (`l74` is 74), a
    sampled factor or category its value, a location the loop's index, a word its place in WORDS, and what is
    left open 0.

    Unlike TLP's, numbers are `sign(x) log2(1 + |x|)`: factors of a loop multiply, so that equal ratios are
    equal steps, and a factor of 1024 does not drown one of 2.

    Args:
        device: its kind tells how many rows are kept.
    """

    name = "primitives"
    version = 1
    columns = (
        *(f"is_{kind}" for kind in KINDS),
        "is_other",
        *(f"number_{place}" for place in range(NUMBERS)),
    )

    rows: int

    def __init__(self, *, device: Device) -> None:
        self.rows = LENGTHS[device.kind]
        self._templates: dict[str, _Template] = {}

    @property
    def inputs(self) -> Mapping[str, object]:
        return {"rows": self.rows}

    def explain(self, column: str) -> str:
        kind, _, place = column.partition("_")
        if kind == "is":
            named = "of a kind without a column of its own" if place == "other" else place
            return f"1 where the primitive is {named}"
        return (
            f"number {int(place) + 1} of the primitive's attributes and inputs as sign(x) log2(1 + |x|): a "
            "factor, a category's value, a loop's index, or which block, loop or word it is"
        )

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        n = len(candidates)
        values = np.zeros((n, self.rows, len(self.columns)), dtype=np.float32)
        for positions, sketch, decisions in by_sketch(candidates):
            if sketch.signature not in self._templates:
                self._templates[sketch.signature] = _template(sketch, self.rows)
            values[positions] = self._templates[sketch.signature].filled(decisions)
        offsets = np.arange(n + 1, dtype=np.int64) * self.rows
        return FeatureBatch(values.reshape(-1, len(self.columns)), offsets, self.name, self.version)


@dataclass(frozen=True)
class _Decided:
    """A number that a row of decisions gives: `values[row[column]]`, without values the decision itself."""

    column: int
    values: tuple[int, ...] = ()


_Number = float | _Decided


@dataclass(frozen=True)
class _Template:
    """fixed: `rows x width` float32, what the sketch fixes. decided: row and column of the other numbers, and
    where they are from."""

    fixed: NDArray[np.float32]
    decided: tuple[tuple[int, int, _Decided], ...]

    def filled(self, decisions: NDArray[np.int64]) -> NDArray[np.float32]:
        """`n x rows x width` of n rows of decisions."""
        values = np.repeat(self.fixed[None], len(decisions), axis=0)
        for row, column, decided in self.decided:
            numbers = decisions[:, decided.column]
            if decided.values:
                numbers = np.array(decided.values)[numbers]
            values[:, row, column] = scaled(numbers)
        return values


def scaled(numbers: Any) -> NDArray[np.float64]:
    """`sign(x) log2(1 + |x|)` of an array or a number."""
    numbers = np.asarray(numbers, dtype=np.float64)
    logs: NDArray[np.float64] = np.sign(numbers) * np.log2(1 + np.abs(numbers))
    return logs


def _template(sketch: Sketch, rows: int) -> _Template:
    genes = {gene.instruction: gene for gene in sketch.genes}
    instructions, _ = sketch.trace.as_json()
    sampled: dict[str, _Decided] = {}
    fixed = np.zeros((rows, len(KINDS) + 1 + NUMBERS), dtype=np.float32)
    decided = []
    row = 0
    for instruction, (kind, inputs, attributes, outputs) in zip(
        sketch.trace.insts, instructions, strict=True
    ):
        if instruction in genes:
            sampled |= _sampled(genes[instruction], [str(name) for name in outputs])
        if str(kind).startswith(_NO_PRIMITIVE):
            continue
        if row == rows:
            break
        fixed[row, KINDS.index(kind) if kind in KINDS else _OTHER] = 1
        numbers = [*_numbers(attributes, {}), *_numbers(inputs, sampled)][:NUMBERS]
        for column, number in enumerate(numbers, len(KINDS) + 1):
            if isinstance(number, _Decided):
                decided.append((row, column, number))
            else:
                fixed[row, column] = scaled(number)
        row += 1
    return _Template(fixed, tuple(decided))


def _sampled(gene: Gene, outputs: Sequence[str]) -> dict[str, _Decided]:
    """What the outputs of a sampling instruction are, by name."""
    if isinstance(gene, TileGene):
        return {name: _Decided(gene.start + part) for part, name in enumerate(outputs)}
    values = gene.values if isinstance(gene, CategoryGene) else ()
    return {name: _Decided(gene.start, values) for name in outputs}


def _numbers(values: Any, sampled: Mapping[str, _Decided]) -> Iterator[_Number]:
    """The numbers of an instruction's inputs or attributes, as TVM writes them to JSON."""
    for value in values:
        value = getattr(value, "value", value)  # numbers of a trace made in memory are boxed
        if isinstance(value, (bool, int, float)):
            yield float(value)
        elif value is None:
            yield 0.0
        elif isinstance(value, str):
            yield _word(value, sampled)
        else:
            yield from _numbers(value, sampled)


def _word(word: str, sampled: Mapping[str, _Decided]) -> _Number:
    if word in sampled:
        return sampled[word]
    if word == "None":
        return 0.0
    reference = _REFERENCE.fullmatch(word)
    if reference:
        return float(reference[1])
    return float(_WORD.get(word.strip('"'), len(WORDS) + 1))
