"""`compute_at`, `reverse_compute_at` and `cache_write` on a `Program`: blocks that get new loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pruner.search.nest import Access, Linear, Loop
from pruner.search.symbolic.affine import add, constant, substitute
from pruner.search.symbolic.dependence import consumers, contains, producers
from pruner.search.symbolic.polynomial import equal
from pruner.search.symbolic.primitives import find_branch
from pruner.search.symbolic.program import Axis, Block, Branch, Program, Region, UnsupportedSketch
from pruner.search.symbolic.regions import Span, relax, union, within


def compute_at(program: Program, block: Block, loop: Loop) -> Block:
    """Moves a producer under a loop, before its first consumer there."""
    branch = find_branch(program, loop)
    users = consumers(program, block)
    spans = _required(program, block.write_regions, users, branch, reading=True)
    program.remove(block)
    place = next(i for i, child in enumerate(branch.children) if any(contains(child, u) for u in users))
    return _attach(program, block, spans, branch, place)


def reverse_compute_at(program: Program, block: Block, loop: Loop) -> Block:
    """Moves a consumer under a loop, behind its last producer there."""
    branch = find_branch(program, loop)
    sources = producers(program, block)
    users = consumers(program, block)
    spans = _required(program, block.read_regions, sources, branch, reading=False)
    program.remove(block)
    later = (i for i, child in enumerate(branch.children) if any(contains(child, u) for u in users))
    return _attach(program, block, spans, branch, next(later, len(branch.children)))


def _required(
    program: Program, provided: Sequence[Region], others: Sequence[Block], branch: Branch, *, reading: bool
) -> dict[Loop, Span]:
    """The span of every axis that the provided regions name, for what the other blocks under the branch
    read or write. An axis is found by a dimension that it alone indexes."""
    spans: dict[Loop, Span] = {}
    for region in provided:
        required = _relaxed(program, region, others, branch, reading)
        for form, length, span in zip(region.least, region.lengths, required, strict=bool(required)):
            if not form.terms:
                continue
            [*terms] = form.terms.items()
            axis, coefficient = terms[0]
            if len(terms) != 1 or length != 1 or not isinstance(axis, Loop) or not equal(coefficient, 1):
                name = region.buffer.name
                raise UnsupportedSketch(f"Buffer {name} is not indexed by one axis a dimension.")
            shifted = replace(span, least=add(span.least, constant(form.const), -1))
            spans[axis] = union(spans[axis], shifted) if axis in spans else shifted
    return spans


def _relaxed(
    program: Program, region: Region, others: Sequence[Block], branch: Branch, reading: bool
) -> list[Span]:
    """Per dimension, what the other blocks touch of the region's buffer in one turn of the branch's loop;
    empty when they do not touch it."""
    hull: list[Span] = []
    for other in others:
        path = program.path(other)
        depth = next(i for i, around in enumerate(path) if around is branch)
        below = {around.loop for around in path[depth + 1 :] if around.loop is not None}
        for need in other.read_regions if reading else other.write_regions:
            if need.buffer is not region.buffer:
                continue
            if not need.affine:
                raise UnsupportedSketch(f"Block {other.name} indexes {need.buffer.name} by data.")
            spans = [
                _touched(form, length, other, below)
                for form, length in zip(need.least, need.lengths, strict=True)
            ]
            hull = list(map(union, hull, spans)) if hull else spans
    return hull


def _touched(form: Linear, length: int, block: Block, relaxed: set[Loop]) -> Span:
    span = relax(substitute(form, block.binding), relaxed)
    return replace(span, length=span.length + (length - 1))


def _attach(program: Program, block: Block, spans: dict[Loop, Span], branch: Branch, place: int) -> Block:
    binding: dict[Loop, Linear] = {}
    loops: list[Loop] = []
    for n, axis in enumerate(block.axes):
        full = Span(constant(0), axis.domain.extent)
        span = within(spans[axis.domain], axis.domain.extent) if axis.domain in spans else full
        loop = Loop(span.length, name=f"ax{n}")
        loops.append(loop)
        binding[axis.domain] = add(span.least, Linear({loop: 1}))
        if not (isinstance(span.constant, int) and span.constant):
            program.constant = (*program.constant, span.constant)
    moved = replace(block, binding=binding)
    node: Branch | Block = moved
    for loop in reversed(loops):
        node = Branch(loop, [node])
    branch.children.insert(place, node)
    program.changed()
    return moved


def cache_write(program: Program, block: Block, index: int, scope: str) -> Block:
    """The block writes a copy of its buffer in `scope`; a new block at the root moves it to the buffer."""
    written = block.write_regions[index].buffer
    cache = replace(written, name=f"{written.name}_{scope}", scope=scope, argument=False)

    def swap(access: Access) -> Access:
        return Access(cache, access.index) if access.buffer is written else access

    def swap_region(region: Region) -> Region:
        return replace(region, buffer=cache) if region.buffer is written else region

    path = program.path(block)
    around = {branch.loop for branch in path if branch.loop is not None}
    binding: dict[Loop, Linear] = {}
    axes: list[Axis] = []
    loops: list[Loop] = []
    for n, (form, length, dim) in enumerate(
        zip(block.write_regions[index].least, block.write_regions[index].lengths, written.shape, strict=True)
    ):
        span = _touched(form, length, block, around)
        loop = Loop(span.length, name=f"ax{n}")
        axis = Axis(Loop(dim, name=f"v{n}"))
        axes.append(axis)
        loops.append(loop)
        binding[axis.domain] = add(span.least, Linear({loop: 1}))
    whole = tuple(Linear({axis.domain: 1}) for axis in axes)
    ones = (1,) * len(axes)
    copy = Block(
        name=cache.name,
        axes=tuple(axes),
        binding=binding,
        reads=(Access(cache, whole),),
        writes=(Access(written, whole),),
        read_regions=(Region(cache, whole, ones),),
        write_regions=(Region(written, whole, ones),),
        ops={},
        dtype=written.dtype,
        has_init=False,
        single_store=True,
        loads=(1,),
    )
    program.replace_block(
        block,
        replace(
            block,
            reads=tuple(map(swap, block.reads)),
            writes=tuple(map(swap, block.writes)),
            read_regions=tuple(map(swap_region, block.read_regions)),
            write_regions=tuple(map(swap_region, block.write_regions)),
        ),
    )
    node: Branch | Block = copy
    for loop in reversed(loops):
        node = Branch(loop, [node])
    top = path[1] if len(path) > 1 else block
    place = next(i for i, child in enumerate(program.root.children) if child is top or contains(child, block))
    program.root.children.insert(place + 1, node)
    program.changed()
    return copy
