"""Who reads what whom writes, and what TVM lets move: the structural conditions of its primitives."""

from __future__ import annotations

from pruner.search.nest import Buffer, Loop
from pruner.search.symbolic.program import Block, Branch, Program, UnsupportedSketch


def writers(program: Program, buffer: Buffer) -> list[Block]:
    """Blocks that write the buffer, in program order."""
    return [b for b, _ in program.blocks() if any(w.buffer is buffer for w in b.writes)]


def consumers(program: Program, block: Block) -> list[Block]:
    """Later blocks that read or rewrite what the block writes, in program order."""
    written = {id(w.buffer) for w in block.writes}
    found: list[Block] = []
    passed = False
    for other, _ in program.blocks():
        if other is block:
            passed = True
        elif passed and any(id(a.buffer) in written for a in (*other.reads, *other.writes)):
            found.append(other)
    return found


def producers(program: Program, block: Block) -> list[Block]:
    """Earlier blocks that write what the block reads or rewrites, in program order."""
    needed = {id(a.buffer) for a in (*block.reads, *block.writes)}
    found: list[Block] = []
    for other, _ in program.blocks():
        if other is block:
            return found
        if any(id(w.buffer) in needed for w in other.writes):
            found.append(other)
    return found


def is_output(block: Block) -> bool:
    """Whether the block writes a function parameter."""
    return any(w.buffer.argument for w in block.writes)


def _is_copyable(program: Program, block: Block) -> bool:
    """TVM's complete block: data parallel axes only, sole writer, reads nothing it writes."""
    own = {id(w.buffer) for w in block.writes}
    return (
        not any(axis.reduce for axis in block.axes)
        and all(len(writers(program, w.buffer)) == 1 for w in block.writes)
        and not any(id(r.buffer) in own for r in block.read_regions)
    )


def _is_reduction(program: Program, block: Block) -> bool:
    """TVM's reduction block: initialised, sole writer, its output indices free of reduction axes."""
    reducing = {axis.domain for axis in block.axes if axis.reduce}
    return (
        block.has_init
        and all(len(writers(program, w.buffer)) == 1 for w in block.writes)
        and not any(index.loops() & reducing for w in block.writes for index in w.index)
    )


def can_inline(program: Program, block: Block) -> bool:
    """Whether TVM's `compute_inline` accepts the block."""
    if block.has_init or not block.single_store or len(block.write_regions) != 1 or is_output(block):
        return False
    if not _is_copyable(program, block) or len(program.blocks()) == 1:
        return False
    named: set[Loop] = set()
    for index in block.writes[0].index:
        if not index.terms and index.const == 0:
            continue
        [*terms] = index.terms.items()
        if len(terms) != 1 or terms[0][1] != 1 or index.const != 0 or terms[0][0] in named:
            return False
        if not isinstance(terms[0][0], Loop):
            return False
        named.add(terms[0][0])
    return all(index.loops() <= named for read in block.reads for index in read.index)


def can_compute_at(program: Program, block: Block, branch: Branch) -> bool:
    """Whether TVM's `compute_at` accepts the block under the loop of `branch`, whose subtree already
    holds every consumer. Raises UnsupportedSketch where that depends on data."""
    if is_output(block) or not (_is_copyable(program, block) or _is_reduction(program, block)):
        return False
    own_path = program.path(block)
    if any(other is branch for other in own_path):
        return False
    users = consumers(program, block)
    written = {id(w.buffer) for w in block.writes}
    for user in users:
        for region in user.read_regions:
            if id(region.buffer) in written and not region.affine:
                raise UnsupportedSketch(f"Block {user.name} indexes {region.buffer.name} by data.")
    first = next(i for i, child in enumerate(branch.children) if any(contains(child, u) for u in users))
    needed = producers(program, block)
    return not any(contains(child, p) for child in branch.children[first:] for p in needed)


def contains(child: Branch | Block, block: Block) -> bool:
    """Whether a subtree holds the block."""
    return child is block or (isinstance(child, Branch) and any(contains(c, block) for c in child.children))


def common_branch(program: Program, blocks: list[Block]) -> Branch:
    """The innermost branch around all blocks."""
    paths = [program.path(block) for block in blocks]
    shared = paths[0][0]
    for level in zip(*paths, strict=False):
        if any(branch is not level[0] for branch in level):
            break
        shared = level[0]
    return shared
