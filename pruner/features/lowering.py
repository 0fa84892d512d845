"""From a nest to its stores, as TVM lowers the program.

A nest holds the program as its schedule leaves it. Until TVM extracts features or generates code, it splits a
cooperative fetch into turns, threads and lanes, moves the loops over threads to the top of the kernel, fuses
the outer loops of a CPU program into a parallel one and inner loops into vectors, takes the initialisation of
a reduction out of its loop, and shrinks every intermediate buffer to what is alive at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pruner.features.cross_thread import crosses, parts
from pruner.features.fused import Fused
from pruner.features.kernel import Kernel, decomposed
from pruner.features.stores import Lowered, Memory, Store
from pruner.search.members import Place, accesses, places
from pruner.search.nest import Buffer, Extent, Loop, Nest, Statement, product
from pruner.search.scopes import is_thread, shared_by


def lower(
    nest: Nest, statement: Statement, fused: Sequence[Fused], *, fetch_threads_again: bool = False
) -> Lowered:
    """Lowers what stands in the same outermost loop as the statement.

    fused: by statement of the nest, the loops that TVM fuses.
    fetch_threads_again: a fetch runs in a second loop over threads inside the first, as the tensor
    expressions of older TVM have it, not over the threads that are there.
    """
    where = places(nest.statements)
    head = where[list(nest.statements).index(statement)].nest
    slots = [slot for slot, place in enumerate(where) if place.nest == head]
    return _lowered(nest, where, slots, fused, fetch_threads_again=fetch_threads_again)


def lower_all(nest: Nest, fused: Sequence[Fused]) -> list[Lowered]:
    """Lowers the whole program: what stands in each of its outermost loops, in program order. Of a reduction
    across threads, all rows have partial results of a thread, or none (`cross_thread.alike`). fused: by
    statement, the loops that TVM fuses."""
    where = places(nest.statements)
    heads: dict[int, list[int]] = {}
    for slot, place in enumerate(where):
        heads.setdefault(place.nest, []).append(slot)
    return [_lowered(nest, where, slots, fused, across=True) for slots in heads.values()]


def _lowered(
    nest: Nest,
    where: Sequence[Place],
    slots: Sequence[int],
    fused: Sequence[Fused],
    *,
    fetch_threads_again: bool = False,
    across: bool = False,
) -> Lowered:
    """The stores of the statements in these slots, which one outermost loop holds."""
    statements = nest.statements
    # The pragma that unrolls stands on the outermost loop, which is kept with it.
    unrolls = any(where[slot].unrolls for slot in slots)
    pragma = np.broadcast_to(unrolls & (np.asarray(nest.unroll) > 0), nest.rows)
    kernel = Kernel([statements[slot] for slot in slots], pragma, fetch_threads_again)
    memories = _memories([(statements[slot], where[slot]) for slot in slots], kernel)
    stores: list[Store] = []
    for slot in slots:
        if across and crosses(statements[slot]):
            for part, register, around in parts(statements[slot]):
                stores.append(kernel.store(part, Fused(np.zeros((len(part.loops), nest.rows), dtype=bool))))
                memories[register] = kernel.register(around)
            continue
        if statements[slot].has_init:
            first = decomposed(statements[slot], where[slot])
            stores.append(kernel.initialisation(statements[slot], fused[slot], first))
        stores.append(kernel.store(statements[slot], fused[slot]))
    return Lowered(tuple(stores), memories)


def _memories(placed: Sequence[tuple[Statement, Place]], kernel: Kernel) -> dict[Buffer, Memory]:
    homes: dict[Buffer, tuple[Loop, ...]] = {}
    for statement, place in placed:
        for access, depth in zip(accesses(statement), place.homes, strict=True):
            if access.buffer.argument:
                continue
            if statement.has_init and access in statement.writes:
                depth = min(depth, decomposed(statement, place))
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


def _largest(extents: Sequence[Extent]) -> Extent:
    """The largest of some extents, row by row."""
    result = extents[0]
    for extent in extents[1:]:
        result = np.maximum(result, extent)
    return result
