"""The temporal dataflow features of Pruner (ASPLOS 2025, figure 4): a row per block movement of the tiled
reduction, 23 numbers each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.features import chunks, released
from pruner.features.accesses import Lines, Reuse, Trail, Visit, lines, reuse, visits
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.features.dataflow_columns import EXPLAINED
from pruner.features.fused import Fused, all_fused
from pruner.features.lowering import lower
from pruner.features.movements import Movement, Pattern, find_pattern
from pruner.features.nests import nests
from pruner.features.statement_numbers import Number, scaled
from pruner.features.stores import Lowered
from pruner.search.candidate import Candidate
from pruner.search.nest import Buffer, Nest, product
from pruner.search.population import Population
from pruner.search.scopes import is_thread

Floats = NDArray[np.float64]


class DataflowFeatures(FeatureExtractor):
    """Ten rows per candidate, in the order of `movements`: Dim(10, 23) in the paper.

    The reduction with the most operations is followed, in the loop nest that it stands in, as TVM lowers it
    (`lowering.lower`). A movement that the program does not have is a row of zeros, so that a program without
    a reduction is all zeros, and so is the write-back of an accumulator that is the output. An operand that
    is not staged has zeros for its fetch, and its `staged` row describes the read from where it lies, which
    on a CPU is the rule. There the levels are memory, a cache stage (a buffer that lives inside loops) and
    the registers (an accumulator that does).

    The numbers are those of TVM's per-store extractor, which gives no row to an initialisation. These differ:
    - `operations` counts integer arithmetic too, and all selections of an instance as one.
    - `allocated` is 0 for the function's arguments.
    - `unique_bytes`, `unique_lines` and `reuse_distance_bytes` count what is touched. TVM's extractor binds
      every loop to zero before it binds it to its range, and its analyzer remembers that in remainders: it
      takes `i % 8` for 0, so that most fused loops seem to touch less than they do. It also counts what the
      last turn of a fetch would touch beyond its tile.
    - TVM reads strides off an index as it was simplified, which for the floor divisions of a fetch may name
      another dimension.
    - Reductions across threads are taken without the partial results that TVM adds, and buffers of a grouped
      convolution without the slack that TVM allocates.

    Args:
        device: not used; all extractors are made with one.
    """

    name = "dataflow"
    version = 1
    movements: ClassVar[tuple[str, ...]] = (
        "initialise",
        *("read_a", "stage_a", "read_b", "stage_b"),
        *("accumulate", "staged_a", "staged_b"),
        *("read_accumulator", "write_output"),
    )
    columns = tuple(EXPLAINED)
    rows = len(movements)

    def __init__(self, *, device: Device) -> None:
        pass

    @property
    def inputs(self) -> Mapping[str, object]:
        return {}

    def explain(self, column: str) -> str:
        return EXPLAINED[column]

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        return chunks.in_chunks(self._extract, candidates, chunks.ROWS)

    def _extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        n, length = len(candidates), len(self.movements)
        values = np.zeros((n, length, len(self.columns)), dtype=np.float32)
        for rows, nest, fused in all_fused(list(nests(candidates)) if n else []):
            pattern = find_pattern(nest)
            if pattern is not None:
                for row, numbers in self._rows(nest, pattern, fused):
                    values[rows, self.movements.index(row)] = numbers.T
        offsets = length * np.arange(n + 1, dtype=np.int64)
        return FeatureBatch(values.reshape(n * length, len(self.columns)), offsets, self.name, self.version)

    def _rows(self, nest: Nest, pattern: Pattern, fused: Sequence[Fused]) -> Iterator[tuple[str, Floats]]:
        """The rows that the nest has, by name: `columns x m` numbers."""
        lowered = self._lower(nest, pattern, fused)
        trail = Trail(nest.rows)
        for visit in self._visits(lowered):
            own = self._follow(visit, trail)
            for movement in pattern.movements():
                if movement.row in self.movements and _does(visit, movement):
                    yield movement.row, self._numbers(lowered, pattern, visit, movement.buffer, own)

    def _lower(self, nest: Nest, pattern: Pattern, fused: Sequence[Fused]) -> Lowered:
        return lower(nest, pattern.compute, fused)

    def _visits(self, lowered: Lowered) -> Iterator[Visit]:
        return visits(lowered, compacted=True)

    def _follow(self, visit: Visit, trail: Trail) -> Trail:
        """The trail that a visited store finds, itself at the end. Like TVM's extractor it overlooks the
        stores of constants, which find nothing but themselves."""
        own = Trail(visit.runs.inner.shape[1]) if visit.store.constant else trail
        own.add(visit)
        return own

    def _operations(self, visit: Visit) -> Floats:
        return np.asarray(visit.store.operations * visit.runs.inner[0])

    def _used(self, visit: Visit, buffer: Buffer, trail: Trail) -> tuple[Lines, Reuse]:
        return lines(visit, buffer), reuse(visit, buffer, trail)

    def _numbers(
        self, lowered: Lowered, pattern: Pattern, visit: Visit, buffer: Buffer, trail: Trail
    ) -> Floats:
        """The numbers of one access, in the order of `columns`: `columns x m`."""
        touch, _ = visit.reach[buffer]
        touched, used = self._used(visit, buffer, trail)
        bytes_ = visit.runs.inner[0] * buffer.itemsize
        sizes = (bytes_, touched.unique_bytes, touched.lines, touched.unique_lines)
        # What is not used again counts twice, as in TVM.
        count = np.where(used.count > 0, used.count, 0.5)
        memory = lowered.memories.get(buffer)
        allocated = (
            0.0 if memory is None else np.asarray(product(memory.shape), dtype=float) * buffer.itemsize
        )
        place = _place(lowered, pattern, buffer)
        rows: tuple[Number, ...] = (
            self._operations(visit),
            *(place == name for name in PLACES),
            *((touch.read, touch.written) == way for way in WAYS),
            *sizes,
            *(used.in_loop, used.in_sequence, 1.0 - used.in_loop - used.in_sequence),
            *(used.iterations, used.bytes, used.count),
            *(size / count for size in sizes),
            *(touched.stride, allocated),
        )
        table = np.empty((len(rows), len(count)))
        for column, number in enumerate(rows):
            table[column] = number
        return scaled(table)


class DataflowCodeFeatures(DataflowFeatures):
    """The released code's form (`feature_pam.cc`), on which its weights were trained: eight rows per
    candidate, in the order of `movements`, those of the accumulator's write-back left out.

    Its numbers differ from those of `DataflowFeatures`, `columns` mean the same. The product of the loops
    counts twice in `operations`. A buffer keeps its whole index and shape, whatever is alive of it. A fetch
    runs in a second loop over threads. Initialisations leave a trail. Reuse and cache lines are counted as
    `released` says.
    The code looks for the string of levels that such a program gives, global, shared and local, and has
    zeros where it does not find it; here the movements are found as for `dataflow`.
    """

    name = "dataflow_code"
    movements = (
        "initialise",
        *("read_a", "stage_a", "read_b", "stage_b"),
        *("staged_a", "staged_b", "accumulate"),
    )
    rows = len(movements)

    def _lower(self, nest: Nest, pattern: Pattern, fused: Sequence[Fused]) -> Lowered:
        return lower(nest, pattern.compute, fused, fetch_threads_again=True)

    def _visits(self, lowered: Lowered) -> Iterator[Visit]:
        return visits(lowered, compacted=False)

    def _follow(self, visit: Visit, trail: Trail) -> Trail:
        trail.add(visit)
        return trail

    def _operations(self, visit: Visit) -> Floats:
        return np.asarray(visit.store.operations * visit.runs.inner[0] ** 2)

    def _used(self, visit: Visit, buffer: Buffer, trail: Trail) -> tuple[Lines, Reuse]:
        return released.lines(visit, buffer, trail), released.reuse(visit, buffer, trail)


PLACES = ("global", "shared", "local")
# Whether an access reads and whether it writes, in the order of the columns.
WAYS = ((True, False), (False, True), (True, True))


def _does(visit: Visit, movement: Movement) -> bool:
    return visit.store.statement is movement.statement and visit.store.constant == movement.initial


def _place(lowered: Lowered, pattern: Pattern, buffer: Buffer) -> str:
    """The level that a buffer is on."""
    scope = buffer.scope.partition(".")[0]
    memory = lowered.memories.get(buffer)
    on_gpu = any(is_thread(loop.kind) for store in lowered.stores for loop in store.loops)
    if scope == "global" and not on_gpu and memory is not None and memory.home:
        return "local" if buffer is pattern.accumulator else "shared"
    return scope if scope in PLACES else "local"
