"""`compute_at` and `reverse_compute_at` on a `Program`: blocks that move and get new loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pruner.search.nest import Linear, Loop
from pruner.search.scopes import shared_by
from pruner.search.symbolic.affine import add, constant, substitute
from pruner.search.symbolic.dependence import consumers, contains, producers
from pruner.search.symbolic.polynomial import equal
from pruner.search.symbolic.primitives import find_branch
from pruner.search.symbolic.program import Block, Branch, Program, Region, UnsupportedSketch
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
    empty when they do not touch it. What is read from memory that threads share is needed by all of them."""
    hull: list[Span] = []
    scope = region.buffer.scope
    for other in others:
        path = program.path(other)
        depth = next(i for i, around in enumerate(path) if around is branch)
        below = {around.loop for around in path[depth + 1 :] if around.loop is not None}
        if reading and scope != "global":
            around_it = [around.loop for around in path[1 : depth + 1] if around.loop is not None]
            below |= {loop for loop in around_it if shared_by(scope, loop.kind)}
        for need in other.read_regions if reading else other.write_regions:
            if need.buffer is not region.buffer:
                continue
            if not need.affine:
                raise UnsupportedSketch(f"Block {other.name} indexes {need.buffer.name} by data.")
            spans = [
                touched(form, length, other, below)
                for form, length in zip(need.least, need.lengths, strict=True)
            ]
            hull = list(map(union, hull, spans)) if hull else spans
    return hull


def touched(form: Linear, length: int, block: Block, relaxed: set[Loop]) -> Span:
    """The span of one dimension of a region of the block while `relaxed` runs."""
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
