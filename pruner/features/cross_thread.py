"""Reductions across threads as TVM lowers them (LowerCrossThreadReduction): a partial result of each thread,
an exchange that is a call and no store, and a write-back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pruner.search.members import Renumbered
from pruner.search.nest import Access, Buffer, Extent, Linear, Loop, Nest, Statement, product
from pruner.search.scopes import is_thread


def crosses(statement: Statement) -> bool:
    """Whether threads share the statement's reduction."""
    return any(is_thread(loop.kind) for loop in statement.reduces)


def partial(statement: Statement) -> NDArray[np.bool_]:
    """bool, by row or for all: whether a thread has a partial result, because it has several turns of the
    reduction, or because a condition leaves it without any."""
    turns = product(loop.extent for loop in statement.reduces if not is_thread(loop.kind))
    found = np.not_equal(turns, 1)
    for read in statement.reads:
        for form, dim in zip(read.index, read.buffer.shape, strict=True):
            found = found | np.greater_equal(form.range(statement.loops)[1], dim)
    return np.asarray(found)


def parts(statement: Statement) -> list[tuple[Statement, Buffer, tuple[Loop, ...]]]:
    """The stores that the statement becomes, each with a register that it uses and the loops around that. All
    rows of the statement have partial results, or none."""
    serial = [loop for loop in statement.reduces if not is_thread(loop.kind)]
    outer = tuple(loop for loop in statement.loops if loop not in serial)
    [write] = statement.writes
    found: list[tuple[Statement, Buffer, tuple[Loop, ...]]] = []
    if np.any(partial(statement)):
        register = _cell(write.buffer, "in_thread_")
        own = Statement(
            statement.name,
            statement.loops,
            statement.reduces,
            statement.reads,
            (register,),
            statement.ops,
            statement.dtype,
        )
        found.append((own, register.buffer, outer))
    exchanged = _cell(write.buffer, "cross_thread_")
    nothing: frozenset[Loop] = frozenset()
    last = Statement(statement.name, outer, nothing, (exchanged,), (write,), {}, statement.dtype)
    return [*found, (last, exchanged.buffer, outer)]


def _cell(buffer: Buffer, prefix: str) -> Access:
    """A register that holds one element."""
    register = Buffer(prefix + buffer.name, (1,), buffer.dtype, buffer.itemsize, "local")
    return Access(register, (Linear({}, 0),))


def alike(nest: Nest) -> Iterator[tuple[NDArray[np.int64], Nest]]:
    """The nest's rows by which of its statements have partial results, int64[k], with the nest of those."""
    shared = [partial(statement) for statement in nest.statements if crosses(statement)]
    keys = np.zeros(nest.rows, dtype=np.int64)
    for several in shared:
        keys = 2 * keys + several
    for key in np.unique(keys):
        rows = np.flatnonzero(keys == key)
        yield rows, nest if len(rows) == nest.rows else _of_rows(nest, rows)


def _of_rows(nest: Nest, rows: NDArray[np.int64]) -> Nest:
    def number(value: Extent) -> Extent:
        return value[rows] if isinstance(value, np.ndarray) else value

    copies = Renumbered(number)
    statements = tuple([copies.statement(statement) for statement in nest.statements])
    return Nest(len(rows), statements, *map(number, (nest.parallel, nest.vectorize, nest.unroll)))
