"""TVM's per-store features from the decisions, without a materialised program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.device import Device
from pruner.features import chunks, sketches
from pruner.features.accesses import Lines, Reuse, Trail, Visit, lines, reuse
from pruner.features.batch import FeatureBatch, FeatureExtractor
from pruner.features.cross_thread import alike
from pruner.features.fused import Fused, all_fused
from pruner.features.lowering import lower_all
from pruner.features.nests import nests
from pruner.features.rows import chosen
from pruner.features.simplified import Simplifier
from pruner.features.statement import StatementFeatures
from pruner.features.statement_columns import BUFFERS, LEFT_OUT, columns, explained
from pruner.features.statement_numbers import (
    Number,
    allocation,
    annotated,
    float_operations,
    intensities,
    scaled,
    threads,
)
from pruner.features.stores import Lowered
from pruner.features.touched import runs
from pruner.features.tvm_reach import reached_by_tvm
from pruner.features.uncertain import uncertain
from pruner.search.candidate import Candidate, RowCandidate
from pruner.search.nest import Buffer, Nest
from pruner.search.population import Population
from pruner.search.space import Space

Floats = NDArray[np.float64]

# The columns of TVM's that are kept.
_KEPT = [i for i, column in enumerate(columns()) if column not in LEFT_OUT]


class StatementFastFeatures(FeatureExtractor):
    """The rows of `statement`, from the decisions of a whole population at once, without the five columns in
    `left_out`.

    Candidates that arrays cannot express are read by `statement`, those columns dropped: traces, rows of
    unsupported sketches and of those on which the two are found to differ (`sketches.agrees`), and rows of
    which the decisions do not tell all numbers (`uncertain`): up to a quarter of a grouped convolution's on a
    CPU. Of a space's rows, `Space.referred` has the keys.

    Args:
        device: its kind tells whether thread bindings are features; the reference looks at its target.
    """

    name = "statement_fast"
    version = 1
    columns = tuple([columns()[i] for i in _KEPT])
    left_out = LEFT_OUT

    def __init__(self, *, device: Device) -> None:
        self._device = device
        self._on_gpu = device.kind == "gpu"

    @property
    def inputs(self) -> Mapping[str, object]:
        return {"gpu": self._on_gpu}

    def explain(self, column: str) -> str:
        return explained(column)

    @cached_property
    def _reference(self) -> StatementFeatures:
        return StatementFeatures(device=self._device)

    def extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        return chunks.in_chunks(self._extract, candidates, chunks.ROWS)

    def _extract(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        trusted = np.flatnonzero(sketches.trusted(candidates, self._agrees))
        told, rows = self.told(chosen(candidates, trusted))
        parts, order = [told], [trusted[rows]]
        rest = np.setdiff1d(np.arange(len(candidates)), order[0])
        if len(rest):
            order.append(rest)
            parts.append(chunks.in_chunks(self._referred, chosen(candidates, rest), chunks.PROGRAMS))
        return FeatureBatch.concat(parts).take(np.argsort(np.concatenate(order)))

    def told(self, candidates: Population | Sequence[Candidate]) -> tuple[FeatureBatch, NDArray[np.int64]]:
        """What the decisions tell, and the positions of the candidates of which they tell it."""
        parts = [self._batch(np.zeros((0, 0, len(self.columns)), dtype=np.float32))]
        order = [np.zeros(0, dtype=np.int64)]
        groups = [
            (rows[part], same)
            for rows, nest in (nests(candidates, replayed=False) if len(candidates) else ())
            for part, same in alike(nest)
        ]
        for rows, nest, fused in all_fused(groups):
            table, certain = self._table(nest, fused)
            parts.append(self._batch(table[certain]))
            order.append(rows[certain])
        return FeatureBatch.concat(parts), np.concatenate(order)

    def _agrees(self, space: Space, sketch: int) -> bool:
        """Whether the decisions of a sketch's candidates tell what TVM finds in their programs."""
        key = (self.name, self._on_gpu, sketch)
        if key not in space.checked:
            space.checked[key] = sketches.agrees(space, sketch, self.told, self._of_programs)
        return space.checked[key]

    def _batch(self, table: NDArray[np.float32]) -> FeatureBatch:
        """Of a table `m x rows x columns`."""
        offsets = table.shape[1] * np.arange(len(table) + 1, dtype=np.int64)
        return FeatureBatch(table.reshape(-1, len(self.columns)), offsets, self.name, self.version)

    def _referred(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        """The same columns as the reference has them; spaces note which of their rows they are."""
        candidates = list(candidates)
        for candidate in candidates:
            if isinstance(candidate, RowCandidate):
                candidate.space.referred.add(candidate.key)
        return self._of_programs(candidates)

    def _of_programs(self, candidates: Population | Sequence[Candidate]) -> FeatureBatch:
        found = self._reference.extract(candidates)
        return FeatureBatch(found.values[:, _KEPT], found.offsets, self.name, self.version)

    def _table(self, nest: Nest, fused: Sequence[Fused]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """A row per buffer that is stored to, in the order of the first stores, `m x rows x columns`, and
        bool[m], whether the decisions tell all of it."""
        found: dict[Buffer, Floats] = {}
        certain = np.ones(nest.rows, dtype=bool)
        trail = Trail(nest.rows)
        for lowered in lower_all(nest, fused):
            certain &= ~uncertain(lowered)
            for store in lowered.stores:
                if store.constant:
                    continue
                simplifier = Simplifier(store)
                reach = {
                    touch.buffer: (
                        touch,
                        reached_by_tvm(store, touch, lowered.memories.get(touch.buffer), simplifier),
                    )
                    for touch in store.touches
                }
                visit = Visit(store, runs(store), reach)
                trail.add(visit)
                row = np.empty((len(self.columns), nest.rows))
                for column, number in enumerate(self._numbers(nest, lowered, visit, trail)):
                    row[column] = number
                found[store.statement.writes[0].buffer] = scaled(row)
        table = np.empty((nest.rows, len(found), len(self.columns)), dtype=np.float32)
        for place, row in enumerate(found.values()):
            table[:, place] = row.T
        return table, certain

    def _numbers(self, nest: Nest, lowered: Lowered, visit: Visit, trail: Trail) -> list[Number]:
        """Those of the columns, before they are scaled."""
        store = visit.store
        times = visit.runs.inner[0]
        counts = float_operations(store.statement.ops)
        written = store.statement.writes[0].buffer
        memory = lowered.memories.get(written)
        alloc = (
            allocation(written.shape, written.itemsize, 1, times)
            if memory is None
            else allocation(memory.shape, written.itemsize, memory.outer, times)
        )
        return [
            *[count * times for count in counts],
            *[0.0] * _NONE,
            *annotated(visit, store.vector),
            *annotated(visit, np.zeros_like(store.vector)),
            *annotated(visit, store.parallel),
            *threads(store, self._on_gpu),
            *self._buffers(visit, trail),
            *intensities(visit, sum(counts)),
            *alloc,
            times,
            visit.runs.present.sum(axis=0),
            np.where(store.pragma, nest.unroll, 0),
        ]

    def _buffers(self, visit: Visit, trail: Trail) -> list[Number]:
        """The numbers of the store's buffers, those with most lines first, then most bytes, then by name.

        Of two of one name, TVM takes first what its hash table has first: nearly always the later one.
        """
        times = visit.runs.inner[0]
        looped = visit.runs.present.any(axis=0)
        tables, keys = [], []
        latest = list(visit.reach.items())[::-1]
        for buffer, (touch, _) in sorted(latest, key=lambda item: item[0].name):
            touched, used = lines(visit, buffer), reuse(visit, buffer, trail)
            # TVM's number where no loop is around the store.
            touched = replace(touched, unique_bytes=np.where(looped, touched.unique_bytes, 1.0))
            bytes_ = times * buffer.itemsize
            sizes = (bytes_, touched.unique_bytes, touched.lines, touched.unique_lines)
            tables.append(_of_buffer((touch.read, touch.written), sizes, touched, used))
            keys.append(np.stack([touched.lines, bytes_]))
        table, key = np.stack(tables), np.stack(keys)
        order = np.lexsort((-key[:, 1], -key[:, 0]), axis=0)
        found = np.zeros((BUFFERS, *table.shape[1:]))
        found[: len(table)] = np.take_along_axis(table, order[:BUFFERS, None], axis=0)
        return list(found.reshape(-1, len(times)))


# Integer operations of data, and selections by value: of those that are kept, TVM finds none here.
_NONE = 9 - len(LEFT_OUT)
_WAYS = ((True, False), (False, True), (True, True))


def _of_buffer(way: tuple[bool, bool], sizes: Sequence[Floats], touched: Lines, used: Reuse) -> Floats:
    """The 18 numbers of one buffer, `18 x m`."""
    # What is not used again counts twice, as in TVM.
    count = np.where(used.count > 0, used.count, 0.5)
    rows: tuple[Number, ...] = (
        *(way == other for other in _WAYS),
        *sizes,
        *(used.in_loop, used.in_sequence, 1.0 - used.in_loop - used.in_sequence),
        *(used.iterations, used.bytes, used.count),
        *(size / count for size in sizes),
        touched.stride,
    )
    table = np.empty((len(rows), len(count)))
    for place, row in enumerate(rows):
        table[place] = row
    return table
