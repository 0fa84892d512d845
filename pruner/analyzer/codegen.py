"""What TVM makes of a schedule after it was sampled: which loops run in parallel, which become vectors.

MetaSchedule's RewriteParallelVectorizeUnroll fuses outer loops into a parallel one and inner loops into a
vector, by rules that depend on extents. The same rules here, for many candidates at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.statements import StatementBatch
from pruner.search.nest import Access, Loop

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rewrite:
    """What happens to the loops of one statement.

    parallel_loops, vector_loops: int64[m], how many loops from outside and from inside are fused.
    chunks: int64[m], iterations of the parallel loop (1 = no parallel loop).
    lanes: int64[m], iterations of the vector loop (1 = no vector loop).
    whole: bool[m], all loops were fused and split into chunks of `lanes`, the last one perhaps cut short.
    """

    parallel_loops: Ints
    vector_loops: Ints
    chunks: Ints
    lanes: Ints
    whole: NDArray[np.bool_]


def rewrite(batches: Sequence[StatementBatch]) -> list[Rewrite]:
    """The rewrite of each batch's statement. Statements are treated in program order: one that shares its
    outer loops with an earlier statement finds them parallel already."""
    results = [_rewrite_alone(batch) for batch in batches]
    rows = 1 + max((int(batch.rows.max(initial=-1)) for batch in batches), default=-1)
    slots = 1 + max((int(batch.nest.max(initial=-1)) for batch in batches), default=-1)
    # The first statement of a nest decides how many of the shared loops are fused.
    loops = np.zeros((slots, rows), dtype=np.int64)
    chunks = np.ones((slots, rows), dtype=np.int64)
    for batch, result in zip(batches, results, strict=True):
        head = batch.slot == batch.nest
        loops[batch.nest[head], batch.rows[head]] = result.parallel_loops[head]
        chunks[batch.nest[head], batch.rows[head]] = result.chunks[head]
    return [
        Rewrite(
            parallel_loops=np.where(
                batch.slot == batch.nest, result.parallel_loops, loops[batch.nest, batch.rows]
            ),
            vector_loops=result.vector_loops,
            chunks=chunks[batch.nest, batch.rows],
            lanes=result.lanes,
            whole=result.whole,
        )
        for batch, result in zip(batches, results, strict=True)
    ]


def _rewrite_alone(batch: StatementBatch) -> Rewrite:
    extents, m = batch.extents(), len(batch)
    depth = len(extents)
    bound = np.array([bool(loop.annotations) or "." in loop.kind for loop in batch.statement.loops])
    free = np.broadcast_to((~np.array(batch.mixed, dtype=bool) & ~bound).reshape(depth, 1), extents.shape)
    fusible = _contiguous_loops(batch, extents)

    parallel_loops, chunks = np.zeros(m, dtype=np.int64), np.ones(m, dtype=np.int64)
    going = batch.parallel > 0
    for level in range(depth):
        going = going & free[level]
        if not going.any():
            break
        parallel_loops += going
        chunks = np.where(going, chunks * extents[level], chunks)
        going = going & (chunks <= batch.parallel) & ~batch.forks[level]
    parallel_loops[chunks == 1] = 0

    vector_loops, lanes = np.zeros(m, dtype=np.int64), np.ones(m, dtype=np.int64)
    reach = np.ones(m, dtype=np.int64)
    going = batch.vectorize > 0
    for level in reversed(range(depth)):
        going = going & free[level] & ~batch.forks[level] & (vector_loops < fusible)
        if not going.any():
            break
        reach = np.where(going, reach * extents[level], reach)
        going = going & (reach <= batch.vectorize)
        vector_loops += going
        lanes = np.where(going, reach, lanes)
    # Loops of one iteration alone are not worth a vector; then nothing competes with the parallel loops.
    vector_loops[reach == 1] = 0

    rewritable = np.all(free & ~batch.forks, axis=0)
    both = (batch.parallel > 0) & (batch.vectorize > 0) & (chunks > 1) & (reach > 1)
    whole = both & rewritable & (fusible == depth)
    parallel_loops = np.where(both, np.minimum(parallel_loops, depth - vector_loops), parallel_loops)
    chunks = _product_of_first(extents, parallel_loops)
    total = np.prod(extents, axis=0, dtype=np.int64)
    return Rewrite(
        parallel_loops=np.where(whole, depth, parallel_loops),
        vector_loops=np.where(whole, depth, vector_loops),
        chunks=np.where(whole, -(-total // np.maximum(batch.vectorize, 1)), chunks),
        lanes=np.where(whole, batch.vectorize, lanes),
        whole=whole,
    )


def _product_of_first(extents: Ints, count: Ints) -> Ints:
    product = np.ones(len(count), dtype=np.int64)
    for level, extent in enumerate(extents):
        product = np.where(level < count, product * extent, product)
    return product


def _contiguous_loops(batch: StatementBatch, extents: Ints) -> Ints:
    """How many innermost loops TVM may fuse into one vector: those that walk every buffer contiguously."""
    depth, m = extents.shape
    result = np.full(m, depth, dtype=np.int64)
    for access in (*batch.statement.reads, *batch.statement.writes):
        count = np.zeros(m, dtype=np.int64)
        going = np.ones(m, dtype=bool)
        expected = np.zeros(m, dtype=np.int64)  # 0 = no loop has moved the access yet
        for level in reversed(range(depth)):
            stride = _seen_stride(access, batch.statement.loops[level], m)
            still, fresh = stride == 0, expected == 0
            fits = np.where(fresh, (stride == 1) | (count == 0), stride == expected)
            going = going & (still | fits)
            if not going.any():
                break
            count += going
            expected = np.where(going & ~still, stride * extents[level], expected)
        result = np.minimum(result, count)
    return result


def _seen_stride(access: Access, loop: Loop, m: int) -> Ints:
    """The stride as TVM's rule reads it: in the innermost dimension with the loop, floor terms unseen."""
    pitch: int | Ints = 1
    for index, dim in zip(reversed(access.index), reversed(access.buffer.shape), strict=True):
        if loop in index.terms:
            return np.broadcast_to(np.asarray(index.terms[loop] * pitch), m)
        pitch = pitch * dim
    return np.zeros(m, dtype=np.int64)
