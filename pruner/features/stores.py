"""A program's stores as TVM lowers them: which loops run around each, and what each touches.

A nest holds the program as its schedule leaves it. Until TVM extracts features or generates code, it splits a
cooperative fetch into turns, threads and lanes, moves the loops over threads to the top of the kernel, fuses
the outer loops of a CPU program into a parallel one and inner loops into vectors, takes the initialisation of
a reduction out of its loop, and shrinks every intermediate buffer to what is alive at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.codegen import Rewrite
from pruner.features.blurs import Blur, blurs
from pruner.features.cross_thread import crosses, parts
from pruner.features.fused import Fused, fused_loops
from pruner.features.indices import substituted
from pruner.search.members import Place, accesses, places
from pruner.search.nest import Access, Buffer, Extent, Floor, Linear, Loop, Nest, Statement, product
from pruner.search.scopes import is_thread, shared_by

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Index = tuple[Linear, ...]


@dataclass(frozen=True, eq=False)
class Touch:
    """What a store does with one buffer. indices: those of all its accesses, the write first. plain: the same
    as the statement has them, over its own loops. written, read: whether it writes the buffer, whether it
    reads it."""

    buffer: Buffer
    indices: tuple[Index, ...]
    plain: tuple[Index, ...]
    written: bool
    read: bool


@dataclass(frozen=True, eq=False)
class Store:
    """One store for `m` candidates.

    loops: outside in. extents: `depth x m`. present: `depth x m` bool, whether the loop is there once those
        of one turn are dropped. joined: `depth x m` bool, whether it is fused into the loop outside of it.
    parallel, vector: `depth x m` bool, whether the loop is spread over cores, or a vector.
    pragma: bool[m], the outermost loop carries the pragma that unrolls.
    whole: bool[m], the statement's loops are one, split into chunks, the outermost loop, and lanes, the
        innermost.
    values: of the statement's loops that other loops run in place of, their values by those.
    touches: by buffer. constant: whether it stores a constant, as an initialisation does. operations: those
        of one instance.
    """

    statement: Statement
    loops: tuple[Loop, ...]
    extents: Floats
    present: Bools
    joined: Bools
    parallel: Bools
    vector: Bools
    pragma: Bools
    whole: Bools
    values: Mapping[Loop, Linear]
    touches: tuple[Touch, ...]
    constant: bool
    operations: int


@dataclass(frozen=True, eq=False)
class Memory:
    """Where an intermediate buffer lives. home: how many loops are around it. fixed: the loops that see a new
    copy at every turn, so that they do not move its elements. fixed_in: by dimension, those of them that move
    what is written. shape: its dimensions once it is shrunk. outer: how often all loops around it turn."""

    home: int
    outer: Extent
    fixed: frozenset[Loop]
    fixed_in: tuple[frozenset[Loop], ...]
    shape: tuple[Extent, ...]
    blurs: tuple[Blur, ...] = ()


@dataclass(frozen=True, eq=False)
class Lowered:
    """The stores of the nest around one statement, in program order, and its intermediate buffers."""

    stores: tuple[Store, ...]
    memories: Mapping[Buffer, Memory]


def lower(nest: Nest, statement: Statement, *, fetch_threads_again: bool = False) -> Lowered:
    """Lowers what stands in the same outermost loop as the statement.

    fetch_threads_again: a fetch runs in a second loop over threads inside the first, as the tensor
    expressions of older TVM have it, not over the threads that are there.
    """
    where = places(nest.statements)
    head = where[list(nest.statements).index(statement)].nest
    slots = [slot for slot, place in enumerate(where) if place.nest == head]
    return _lowered(nest, where, slots, fused_loops(nest, slots), fetch_threads_again=fetch_threads_again)


def lower_all(nest: Nest) -> list[Lowered]:
    """Lowers the whole program: what stands in each of its outermost loops, in program order. Of a reduction
    across threads, all rows have partial results of a thread, or none (`cross_thread.alike`)."""
    where = places(nest.statements)
    fused = fused_loops(nest, range(len(where)))
    heads: dict[int, list[int]] = {}
    for slot, place in enumerate(where):
        heads.setdefault(place.nest, []).append(slot)
    return [_lowered(nest, where, slots, fused, across=True) for slots in heads.values()]


def _lowered(
    nest: Nest,
    where: Sequence[Place],
    slots: Sequence[int],
    fused: Mapping[int, Fused],
    *,
    fetch_threads_again: bool = False,
    across: bool = False,
) -> Lowered:
    """The stores of the statements in these slots, which one outermost loop holds."""
    statements = nest.statements
    # The pragma that unrolls stands on the outermost loop, which is kept with it.
    unrolls = any(where[slot].unrolls for slot in slots)
    pragma = np.broadcast_to(unrolls & (np.asarray(nest.unroll) > 0), nest.rows)
    kernel = _Kernel([statements[slot] for slot in slots], pragma, fetch_threads_again)
    memories = _memories([(statements[slot], where[slot]) for slot in slots], kernel)
    if across:
        memories = {
            buffer: _blurred(buffer, memory, [(statements[slot], fused[slot]) for slot in slots], nest.rows)
            for buffer, memory in memories.items()
        }
    stores: list[Store] = []
    for slot in slots:
        if across and crosses(statements[slot]):
            for part, register, around in parts(statements[slot]):
                stores.append(kernel.store(part, Fused(np.zeros((len(part.loops), nest.rows), dtype=bool))))
                memories[register] = kernel.register(around)
            continue
        if statements[slot].has_init:
            first = _decomposed(statements[slot], where[slot])
            stores.append(kernel.initialisation(statements[slot], fused[slot], first))
        stores.append(kernel.store(statements[slot], fused[slot]))
    return Lowered(tuple(stores), memories)


class _Kernel:
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
        if not (isinstance(statement.fetch, int) and statement.fetch == 0):
            fetched, _ = own.pop()
            split, values[fetched] = self._fetch(fetched.extent, statement.fetch)
            own += [(loop, np.zeros(self._m, dtype=bool)) for loop in split]
        if fused.found is not None and fused.found.whole.any():
            lanes = Loop(np.where(fused.found.whole, fused.found.lanes, 1), name="lane")
            own.append((lanes, np.zeros(self._m, dtype=bool)))
        updates = statement.has_init or bool(statement.reduces)
        found = self._finished(statement, own, values, _touches(statement, values, updates))
        _mark(found, fused.found, len(statement.loops))
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
        touches = [touch for touch in _touches(statement, values, False) if touch.written]
        return self._finished(statement, own, values, touches, constant=True)

    def _fetch(self, extent: Extent, asked: Extent) -> tuple[list[Loop], Linear]:
        """The loops of a cooperative fetch, and the fused loop's value by them."""
        thread = next((loop for kind, loop in self._bound.items() if kind.startswith("threadIdx")), None)
        length, width, threads = (
            np.broadcast_to(np.asarray(number, dtype=np.int64), self._m)
            for number in (extent, asked, 1 if thread is None else thread.extent)
        )
        # Lanes that do not divide what is fetched become one (TVM's RewriteCooperativeFetch).
        lanes = np.where(length % np.maximum(width, 1) == 0, np.maximum(width, 1), 1)
        turns = -(-length // (threads * lanes))
        turn, lane = Loop(turns, name="turn"), Loop(lanes, name="lane")
        terms: dict[Loop | Floor, Extent] = {turn: threads * lanes, lane: 1}
        inner = [lane]
        if thread is not None and self._again:
            thread = Loop(thread.extent, thread.kind, thread.name)
            inner = [thread, lane]
        if thread is not None:
            terms[thread] = lanes
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


def _mark(store: Store, found: Rewrite | None, depth: int) -> None:
    """Notes which loops run in parallel and which are vectors. depth: how many loops the statement has."""
    if found is None:
        for level, loop in enumerate(store.loops):
            store.vector[level] = (loop.name == "lane") & (store.extents[level] > 1)
        return
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


def _touches(statement: Statement, values: Mapping[Loop, Linear], updates: bool) -> list[Touch]:
    """By buffer, in the order of the reads, the written ones last."""
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
    ]


def _decomposed(statement: Statement, place: Place) -> int:
    """The level of the loop that the initialisation of a statement stands before: the first that some
    statement inside it uses as a reduction."""
    levels = (level for level, mixed in enumerate(place.mixed) if mixed)
    return next(levels, len(statement.loops))


def _memories(placed: Sequence[tuple[Statement, Place]], kernel: _Kernel) -> dict[Buffer, Memory]:
    homes: dict[Buffer, tuple[Loop, ...]] = {}
    for statement, place in placed:
        for access, depth in zip(accesses(statement), place.homes, strict=True):
            if access.buffer.argument:
                continue
            if statement.has_init and access in statement.writes:
                depth = min(depth, _decomposed(statement, place))
            if len(homes.setdefault(access.buffer, statement.loops[:depth])) > depth:
                homes[access.buffer] = statement.loops[:depth]
    found = {}
    for buffer, home in homes.items():
        fixed = {loop for loop in home if not shared_by(buffer.scope, loop.kind)}
        written = [
            write.widths([loop for loop in statement.loops if loop not in fixed])
            for statement, _ in placed
            for write in statement.writes
            if write.buffer is buffer
        ]
        shape = tuple([_largest(dims) for dims in zip(*written, strict=True)]) if written else buffer.shape
        around = (*kernel.bound, *(loop for loop in home if not is_thread(loop.kind))) if home else ()
        outer = product(loop.extent for loop in around)
        here = [form.index for statement, _ in placed for form in statement.writes if form.buffer is buffer]
        fixed_in = tuple(
            [
                frozenset(kernel.loop(loop) for index in here for loop in index[n].loops() if loop in fixed)
                for n in range(len(shape))
            ]
        )
        found[buffer] = Memory(len(home), outer, frozenset(map(kernel.loop, fixed)), fixed_in, shape)
    return found


def _blurred(buffer: Buffer, memory: Memory, around: Sequence[tuple[Statement, Fused]], m: int) -> Memory:
    """The memory with what TVM cannot tell of its begin."""
    found = blurs(buffer, memory.home, memory.fixed_in, around, m)
    shape = list(memory.shape)
    for blur in found:
        shape[blur.dimension] = shape[blur.dimension] + blur.slack
    return replace(memory, shape=tuple(shape), blurs=found)


def _largest(extents: Sequence[Extent]) -> Extent:
    """The largest of some extents, row by row."""
    result = extents[0]
    for extent in extents[1:]:
        result = np.maximum(result, extent)
    return result
