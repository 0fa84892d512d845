"""A statement of a GPU program alone: its loops' roles, what it fetches, what one thread touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pruner.analyzer.footprints import inputs
from pruner.analyzer.inspection import Inspection
from pruner.analyzer.roles import gpu_roles
from pruner.analyzer.statements import StatementBatch
from pruner.search.members import accesses
from pruner.search.nest import Access, Floor, Loop

Floats = NDArray[np.float64]

# Roles of the loops of one thread, from a block's first step on.
THREAD = ("vthread", "R0", "R1", "S3", "R2", "S4")
# What a thread holds in registers: its tile of the output and one reduction step of the operands.
TILE = ("vthread", "S3", "S4")


@dataclass(frozen=True, eq=False)
class GpuStatement(Inspection):
    """moves: per access (reads, then writes), `depth x m` bool, whether a thread's loop moves its element.
    shares: per access float64[m], the part of the virtual threads that its element moves with. elements:
    float64[m], what all threads fetch together in one step. lanes: float64[m], of such a fetch, as
    post-processing leaves them; both are 0 for a statement that fetches nothing into shared memory."""

    moves: tuple[NDArray[np.bool_], ...]
    shares: tuple[Floats, ...]
    elements: Floats
    lanes: Floats

    @property
    def fetches(self) -> bool:
        """Whether it is a cooperative fetch into shared memory."""
        return bool(np.any(np.asarray(self.batch.statement.fetch) != 0))

    @property
    def instances(self) -> Floats:
        """float64[m], how often the statement runs; of a fetch, elements over all steps and blocks."""
        if self.fetches:
            return self.product("blockIdx", "R0", "S4")
        return np.asarray(np.prod(self.extents, axis=0))

    @property
    def distinct(self) -> list[int]:
        """Positions of the accesses without the accumulator that a reduction reads."""
        reads = len(self.batch.statement.reads)
        return [*inputs(self.batch.statement), *range(reads, reads + len(self.batch.statement.writes))]

    def product(self, *roles: str) -> Floats:
        """float64[m], iterations of the loops with these roles."""
        return np.asarray(np.prod(self.extents[self.roles.inside(roles, self.loops)], axis=0))

    def touched(self, i: int, *roles: str) -> Floats:
        """float64[m], elements of access `i` that a thread touches while the loops with these roles run, as
        the paper counts them: the product of those that move it."""
        levels = self.roles.inside([role for role in roles if role != "vthread"], self.loops)
        tile = np.asarray(np.prod(np.where(self.moves[i][levels], self.extents[levels], 1.0), axis=0))
        return tile * self.shares[i] if "vthread" in roles else tile

    @cached_property
    def register_bytes(self) -> Floats:
        """float64[m], S1: a register tile of every access; a copy or an epilogue streams."""
        touches = accesses(self.batch.statement)
        roles = TILE if self.reducing else ()
        return np.asarray(
            np.sum([self.touched(i, *roles) * touches[i].buffer.itemsize for i in self.distinct], 0)
        )

    @cached_property
    def staged(self) -> Floats:
        """float64[m], bytes of the shared arrays that it writes: what is touched inside the loops that they
        live in, by all threads of the block."""
        bytes_ = np.zeros(len(self.batch))
        statement, reads = self.batch.statement, len(self.batch.statement.reads)
        for access, home in zip(statement.writes, self.batch.homes[reads:], strict=True):
            if access.buffer.scope.startswith("shared"):
                relaxed = set(statement.loops[int(home.min()) :])
                relaxed |= {
                    loop for loop in statement.loops if self.roles.of(loop) in ("vthread", "threadIdx")
                }
                count = np.asarray(access.footprint(relaxed), dtype=np.float64)
                bytes_ = bytes_ + count * access.buffer.itemsize
        return bytes_

    def exchanged(self, warp: int, aligned: int) -> Floats:
        """float64[m], bytes of the shared arrays that TVM adds to a reduction across threads (its
        LowerThreadAllreduce): none within a warp; over whole warps the result, at an aligned place, and an
        element a warp; else one of every thread."""
        statement = self.batch.statement
        across = [
            level
            for level in self.roles.span("threadIdx", self.loops)
            if self.loops[level] in statement.reduces
        ]
        threads = np.prod(self.extents[across], axis=0)
        size = float(statement.writes[0].buffer.itemsize)
        whole = np.where(threads % warp == 0, aligned + threads / warp * size, threads * size)
        return np.where((threads <= warp) & (warp % threads == 0), 0.0, whole)

    def versions(self) -> Floats:
        """float64[m], copies of the shared arrays that it writes: as many as a software pipeline has stages
        between writing and the last part of its body, which reads, and one more."""
        for loop in self.batch.statement.loops:
            stages = loop.annotations.get("software_pipeline_stage")
            if isinstance(stages, (tuple, list)):
                part = np.minimum(self.batch.slot - self.batch.nest, len(stages) - 1)
                return np.asarray(stages[-1] - np.asarray(stages)[part] + 1, dtype=np.float64)
        return np.ones(len(self.batch))


def read_statement(batch: StatementBatch) -> GpuStatement:
    """The statement of a batch."""
    loops, extents = batch.live_loops()
    roles = gpu_roles(batch.statement, int(batch.branch.min()))
    touches = accesses(batch.statement)
    serial = roles.inside(THREAD, loops)
    bound = [loops[level] for level in roles.span("vthread", loops)]
    asked = np.broadcast_to(np.asarray(batch.statement.fetch, dtype=np.float64), len(batch))
    own = np.prod(extents[roles.span("S4", loops)], axis=0)
    # Lanes that do not divide the fetched elements become one (TVM's RewriteCooperativeFetch).
    lanes = np.where((asked > 0) & (own % np.maximum(asked, 1.0) != 0), 1.0, asked)
    return GpuStatement(
        batch=batch,
        loops=loops,
        extents=extents,
        roles=roles,
        moves=tuple([_moves(access, loops, serial, len(batch)) for access in touches]),
        shares=tuple([_share(access, bound, len(batch)) for access in touches]),
        elements=np.where(asked > 0, own, 0.0),
        lanes=lanes,
    )


def _moves(access: Access, loops: Sequence[Loop], serial: Sequence[int], m: int) -> NDArray[np.bool_]:
    """`depth x m`, whether a loop at one of the `serial` levels moves the accessed element; one inside a
    floor term may not, by itself."""
    moves = np.zeros((len(loops), m), dtype=bool)
    for index in access.index:
        for term in index.terms:
            inside = term.inner.loops() if isinstance(term, Floor) else {term}
            for level in serial:
                if isinstance(term, Floor) and loops[level] in inside:
                    low, high = term.range([loops[level]])
                    moves[level] |= np.not_equal(low, high)
                elif loops[level] in inside:
                    moves[level] = True
    return moves


def _share(access: Access, bound: list[Loop], m: int) -> Floats:
    """How many different elements the virtual threads of a thread reach."""
    share = np.ones(m)
    for index in access.index if bound else ():
        for term in index.terms:
            if isinstance(term, Floor) and not term.inner.loops().isdisjoint(bound):
                low, high = term.range(bound)
                share = share * (np.subtract(high, low) + 1.0)
            elif term in bound:
                share = share * term.extent
    return share
