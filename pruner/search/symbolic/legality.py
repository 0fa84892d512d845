"""What TVM's post-processors ask of a GPU program, as conditions on its decisions.

They follow `ThreadExtentChecker`, `InjectSoftwarePipeline`, `CompactBufferAllocation` and `VerifyGPUCode`.
What those let pass (local memory, the number of virtual threads) is no condition here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm.target import Target

from pruner.search.nest import Buffer, Extent, Loop, product
from pruner.search.scopes import is_thread, shared_by
from pruner.search.symbolic.compaction import allocated
from pruner.search.symbolic.comparison import at_most, both, same
from pruner.search.symbolic.polynomial import whole
from pruner.search.symbolic.program import Block, Program

# The reasons of a rejection, in the order in which they are cheap to find.
REASONS = ("unwritten", "threads", "pipeline", "shared_memory", "dynamic_loop")

Placed = tuple[Block, tuple[Loop, ...]]
STAGES = "software_pipeline_stage"


@dataclass(frozen=True)
class Limits:
    """What a thread block may have: threads, and bytes of shared memory."""

    threads: int
    shared_bytes: int

    @classmethod
    def of(cls, target: Target) -> Limits | None:
        """Those of a GPU target, None for others."""
        threads = target.attrs.get("max_threads_per_block")
        shared = target.attrs.get("max_shared_memory_per_block")
        if "gpu" not in target.keys or threads is None or shared is None:
            return None
        return cls(int(threads), int(shared))


def conditions(program: Program, limits: Limits | None) -> dict[str, Extent]:
    """By reason, 1 in the rows that pass and 0 in the others."""
    found: dict[str, Extent] = dict.fromkeys(REASONS, 1)
    found["dynamic_loop"] = _all(program.constant)
    if limits is not None:
        placed = [(block, program.loops(block)) for block, _ in program.blocks()]
        launched = kernels(placed)
        found["unwritten"] = int(not _unwritten(placed))
        found["threads"] = _all(_threads_fit(kernel, limits) for kernel in launched)
        found["pipeline"] = _all(at_most(2, loop.extent) for loop in _pipelined(placed))
        found["shared_memory"] = _all(at_most(shared_bytes(k), limits.shared_bytes) for k in launched)
    return found


def _all(values: Iterable[Extent]) -> Extent:
    result: Extent = 1
    for value in values:
        result = both(result, value)
    return result


def _unwritten(placed: Sequence[Placed]) -> bool:
    """Whether a block reads what no block writes: TVM inlines a consumer into its producer even where the
    producer has other consumers."""
    written = {region.buffer for block, _ in placed for region in block.write_regions}
    read = {region.buffer for block, _ in placed for region in block.read_regions}
    return any(not buffer.argument for buffer in read - written)


def kernels(placed: Sequence[Placed]) -> list[list[Placed]]:
    """The blocks of every kernel: those that share their outermost loop over threads."""
    found: dict[Loop, list[Placed]] = {}
    for block, loops in placed:
        head = next((loop for loop in loops if is_thread(loop.kind)), None)
        if head is not None:
            found.setdefault(head, []).append((block, loops))
    return list(found.values())


def _threads_fit(kernel: Sequence[Placed], limits: Limits) -> Extent:
    """Every block is run by as many threads as its annotations want, and a kernel's loops over the same
    threads are equally long."""
    fit: Extent = 1
    launched: dict[str, Extent] = {}
    for block, loops in kernel:
        own = {loop.kind: loop.extent for loop in loops if loop.kind.startswith("threadIdx")}
        if block.threads is not None:
            least, most = block.threads
            threads = product(own.values())
            fit = both(fit, both(at_most(least, threads), at_most(threads, most)))
        for kind, extent in own.items():
            fit = both(fit, same(launched.setdefault(kind, extent), extent))
    in_all: Extent = at_most(product(launched.values()), limits.threads)
    return _all((fit, in_all))


def _pipelined(placed: Sequence[Placed]) -> list[Loop]:
    """Loops that are software-pipelined. With one turn the initialisation ends up among the stages."""
    return list(dict.fromkeys(loop for _, loops in placed for loop in loops if STAGES in loop.annotations))


def shared_bytes(kernel: Sequence[Placed]) -> Extent:
    """Bytes of shared memory that a kernel allocates. TVM sums static buffers, it does not merge them."""
    total: Extent = 0
    for buffer in {region.buffer: None for block, _ in kernel for region in block.write_regions}:
        if buffer.scope.partition(".")[0] == "shared":
            total = total + _bytes(buffer, kernel)
    return total


def _bytes(buffer: Buffer, kernel: Sequence[Placed]) -> Extent:
    writers = [p for p in kernel if any(w.buffer is buffer for w in p[0].writes)]
    readers = [p for p in kernel if any(r.buffer is buffer for r in p[0].reads)]
    home = _common([loops for _, loops in (*writers, *readers)])
    relaxed = {loop for _, loops in (*writers, *readers) for loop in loops[len(home) :]}
    relaxed |= {loop for loop in home if shared_by(buffer.scope, loop.kind)}
    dims = allocated(
        buffer,
        [a for block, _ in writers for a in block.bound[1] if a.buffer is buffer],
        [a for block, _ in readers for a in block.bound[0] if a.buffer is buffer],
        relaxed,
    )
    return product(map(whole, dims)) * (buffer.itemsize * _versions(home, kernel, writers, readers))


def _common(paths: Sequence[tuple[Loop, ...]]) -> tuple[Loop, ...]:
    depth = 0
    for level in zip(*paths, strict=False):
        if any(loop is not level[0] for loop in level):
            break
        depth += 1
    return paths[0][:depth]


def _versions(
    home: tuple[Loop, ...], kernel: Sequence[Placed], writers: Sequence[Placed], readers: Sequence[Placed]
) -> int:
    """Copies of a buffer that lives inside a pipelined loop: one per stage from its first write to its last
    read."""
    if not home or STAGES not in home[-1].annotations:
        return 1
    stages = home[-1].annotations[STAGES]
    assert isinstance(stages, tuple)
    depth = len(home)
    parts: dict[object, int] = {}
    for block, loops in kernel:
        if loops[:depth] == home:
            parts.setdefault((*loops, block)[depth], len(parts))
    written = min(stages[parts[(*loops, block)[depth]]] for block, loops in writers)
    read = max(stages[parts[(*loops, block)[depth]]] for block, loops in readers)
    return int(read - written + 1)
