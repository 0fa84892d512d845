"""The stores of the statements that one outermost loop holds: the loops that run around them as TVM lowers
them, and what they touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.codegen import Rewrite
from pruner.features.fused import Fused
from pruner.features.indices import substituted
from pruner.features.stores import Memory, Store, Touch
from pruner.search.members import Place
from pruner.search.nest import Access, Buffer, Extent, Floor, Linear, Loop, Statement, product
from pruner.search.scopes import is_thread

Bools = NDArray[np.bool_]


class Kernel:
    """The statements of one outermost loop. Loops over threads of one kind are one loop."""

    def __init__(self, statements: Sequence[Statement], pragma: Bools, fetch_threads_again: bool) -> None:
        self._pragma = pragma
        self._m = len(pragma)
        self._again = fetch_threads_again
        bound: dict[str, Loop] = {}
        for statement in statements:
            for loop in statement.loops:
                if is_thread(loop.kind):
                    bound.setdefault(loop.kind, loop)
        self._bound = bound

    @property
    def bound(self) -> tuple[Loop, ...]:
        """The loops over threads."""
        return tuple(self._bound.values())

    def register(self, around: Sequence[Loop]) -> Memory:
        """The memory of one element inside these loops."""
        loops = (*self.bound, *(loop for loop in around if not is_thread(loop.kind)))
        nothing: frozenset[Loop] = frozenset()
        return Memory(len(around), product(loop.extent for loop in loops), nothing, (nothing,), (1,))

    def loop(self, loop: Loop) -> Loop:
        """The loop that runs in place of this one."""
        return self._bound.get(loop.kind, loop)

    def store(self, statement: Statement, fused: Fused) -> Store:
        """What the statement stores, without its initialisation."""
        values: dict[Loop, Linear] = {
            loop: Linear({self.loop(loop): 1}) for loop in statement.loops if self.loop(loop) is not loop
        }
        own = [
            (loop, row)
            for loop, row in zip(statement.loops, fused.joined, strict=True)
            if not is_thread(loop.kind)
        ]
        fetches = not (isinstance(statement.fetch, int) and statement.fetch == 0)
        if fetches:
            fetched, _ = own.pop()
            split, values[fetched] = self._fetch(fetched.extent, statement.fetch)
            own += [(loop, np.zeros(self._m, dtype=bool)) for loop in split]
        if fused.found is not None and fused.found.whole.any():
            lanes = Loop(np.where(fused.found.whole, fused.found.lanes, 1), name="lane")
            own.append((lanes, np.zeros(self._m, dtype=bool)))
        found = self._finished(statement, own, values, _touches(statement, values))
        if fused.found is not None:
            _mark(found, fused.found, len(statement.loops))
        elif fetches:
            # Its lanes are the innermost loop.
            found.vector[-1] = found.extents[-1] > 1
        return found

    def initialisation(self, statement: Statement, fused: Fused, first: int) -> Store:
        """The store of the first value: it stands before the loop at level `first`, and of the loops from
        there on those run around it that are no reductions."""
        values = {
            loop: Linear({self.loop(loop): 1} if loop not in statement.reduces else {})
            for loop in statement.loops
        }
        own = [
            (loop, row)
            for loop, row in zip(statement.loops, fused.joined, strict=True)
            if loop not in statement.reduces and not is_thread(loop.kind)
        ]
        outer = set(statement.loops[:first])
        # Its own loops are copies: what it touches there is no other store's.
        copies = {loop: Loop(loop.extent, loop.kind, loop.name) for loop, _ in own if loop not in outer}
        values |= {loop: Linear({copy: 1}) for loop, copy in copies.items()}
        own = [(copies.get(loop, loop), row) for loop, row in own]
        touches = _touches(statement, values, initial=True)
        return self._finished(statement, own, values, touches, constant=True)

    def _fetch(self, extent: Extent, asked: Extent) -> tuple[list[Loop], Linear]:
        """The loops of a cooperative fetch, and the fused loop's value by them, the terms outside in."""
        thread = next((loop for kind, loop in self._bound.items() if kind.startswith("threadIdx")), None)
        length, width, threads = (
            np.broadcast_to(np.asarray(number, dtype=np.int64), self._m)
            for number in (extent, asked, 1 if thread is None else thread.extent)
        )
        # Lanes that do not divide what is fetched become one (TVM's RewriteCooperativeFetch).
        lanes = np.where(length % np.maximum(width, 1) == 0, np.maximum(width, 1), 1)
        turns = -(-length // (threads * lanes))
        turn, lane = Loop(turns, name="turn"), Loop(lanes, name="lane")
        terms: dict[Loop | Floor, Extent] = {turn: threads * lanes}
        inner = [lane]
        if thread is not None and self._again:
            thread = Loop(thread.extent, thread.kind, thread.name)
            inner = [thread, lane]
        if thread is not None:
            terms[thread] = lanes
        terms[lane] = 1
        # The last turn fetches no more than there is.
        return [turn, *inner], Linear({Floor(Linear(terms), length, remainder=True): 1})

    def _finished(
        self,
        statement: Statement,
        own: Sequence[tuple[Loop, Bools]],
        values: Mapping[Loop, Linear],
        touches: Sequence[Touch],
        constant: bool = False,
    ) -> Store:
        loops = (*self._bound.values(), *(loop for loop, _ in own))
        extents = np.empty((len(loops), self._m))
        joined = np.zeros((len(loops), self._m), dtype=bool)
        for level, loop in enumerate(loops):
            extents[level] = loop.extent
        for level, (_, row) in enumerate(own, start=len(self._bound)):
            joined[level] = row
        kept = np.array([is_thread(loop.kind) or bool(loop.annotations) for loop in loops], dtype=bool)
        present = (extents > 1) | kept[:, None]
        present[:1] |= self._pragma
        # A fused loop is there whatever its extent.
        present[:-1] |= joined[1:]
        return Store(
            statement,
            loops,
            extents,
            present & ~joined,
            joined,
            np.zeros_like(joined),
            np.zeros_like(joined),
            self._pragma,
            np.zeros(self._m, dtype=bool),
            values,
            tuple(touches),
            constant or not (statement.reads or statement.ops),
            0 if constant else operations(statement.ops),
        )


def _mark(store: Store, found: Rewrite, depth: int) -> None:
    """Notes which loops of a CPU program run in parallel and which are vectors. depth: how many loops the
    statement has."""
    whole = found.whole
    store.whole[:] = whole
    store.parallel[:1] = (found.parallel_loops > 0) & (found.chunks > 1)
    levels = np.arange(len(store.loops))[:, None]
    store.vector[:] = (levels == depth - found.vector_loops) & (found.vector_loops > 0) & ~whole
    if whole.any():
        store.vector[-1] |= whole
        store.joined[:, whole] = False
        store.extents[0, whole] = found.chunks[whole]
        store.extents[1:-1, whole] = 1
        store.present[1:-1, whole] = False
        store.present[[0, -1]] |= whole


def operations(ops: Mapping[str, int]) -> int:
    """Operations of one instance of a statement. Conversions are none; however many selections there are, as
    in a transform that spells out its matrix, they are one, a padding test."""
    counted = sum(n for kind, n in ops.items() if kind not in ("cast", "select"))
    return counted + min(1, ops.get("select", 0))


def _touches(statement: Statement, values: Mapping[Loop, Linear], *, initial: bool = False) -> list[Touch]:
    """By buffer, in the order of the reads, the written ones last. initial: those of the store of the first
    value, which reads nothing."""
    updates = not initial and (statement.has_init or bool(statement.reduces))
    written = [access.buffer for access in statement.writes]
    found: dict[Buffer, list[Access]] = {}
    for read in statement.reads:
        if read.buffer not in written:
            found.setdefault(read.buffer, []).append(read)
    read_back = {read.buffer for read in statement.reads}
    for write in statement.writes:
        found.setdefault(write.buffer, []).append(write)
    return [
        Touch(
            buffer,
            tuple([tuple([substituted(form, values) for form in access.index]) for access in touching]),
            tuple([access.index for access in touching]),
            written=buffer in written,
            read=buffer not in written or updates or buffer in read_back,
        )
        for buffer, touching in found.items()
        if buffer in written or not initial
    ]


def decomposed(statement: Statement, place: Place) -> int:
    """The level of the loop that the initialisation of a statement stands before: the first that some
    statement inside it uses as a reduction."""
    levels = (level for level, mixed in enumerate(place.mixed) if mixed)
    return next(levels, len(statement.loops))
