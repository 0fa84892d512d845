"""Loop transformations on a `Program`. All change the tree in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pruner.search.nest import Extent, Linear, Loop, product
from pruner.search.symbolic.affine import add, constant, floor_term, substitute
from pruner.search.symbolic.polynomial import equal
from pruner.search.symbolic.program import Branch, Program, UnsupportedSketch


def find_branch(program: Program, loop: Loop) -> Branch:
    """The branch of a loop. Raises UnsupportedSketch when it is no longer there."""
    stack = [program.root]
    while stack:
        branch = stack.pop()
        if branch.loop is loop:
            return branch
        stack.extend(c for c in branch.children if isinstance(c, Branch))
    raise UnsupportedSketch(f"Loop {loop.name} is gone.")


def _rebind(program: Program, branch: Branch, values: dict[Loop, Linear]) -> None:
    """Replaces loops in the bindings of all blocks below."""
    for i, child in enumerate(branch.children):
        if isinstance(child, Branch):
            _rebind(program, child, values)
        else:
            binding = {axis: substitute(form, values) for axis, form in child.binding.items()}
            branch.children[i] = replace(child, binding=binding)


def split(program: Program, loop: Loop, factors: Sequence[Extent]) -> list[Loop]:
    """Loops of the given extents, outermost first, in place of one; their product is its extent."""
    if not equal(product(factors), loop.extent):
        raise UnsupportedSketch(f"Loop {loop.name} is split into factors that need not divide it.")
    branch = find_branch(program, loop)
    loops = [Loop(extent, name=f"{loop.name}_{i}") for i, extent in enumerate(factors)]
    form = constant(0)
    stride: Extent = 1
    for new in reversed(loops):
        form = add(Linear({new: stride}), form)
        stride = stride * new.extent
    _rebind(program, branch, {loop: form})
    inner = branch.children
    for new in reversed(loops[1:]):
        inner = [Branch(new, inner)]
    branch.loop, branch.children = loops[0], inner
    program.changed()
    return loops


def fuse(program: Program, loops: Sequence[Loop]) -> Loop:
    """One loop in place of a chain of loops, outermost first."""
    fused = Loop(product(loop.extent for loop in loops), name="_".join([p.name for p in loops]) + "_fused")
    outer, inner = find_branch(program, loops[0]), find_branch(program, loops[-1])
    values: dict[Loop, Linear] = {}
    form = Linear({fused: 1})
    for loop in reversed(loops[1:]):
        values[loop] = floor_term(form, loop.extent, True)
        form = floor_term(form, loop.extent, False)
    values[loops[0]] = form
    _rebind(program, inner, values)
    outer.loop, outer.children = fused, inner.children
    program.changed()
    return fused


def reorder(program: Program, loops: Sequence[Loop]) -> None:
    """Puts loops of one chain into the given order, at the places they take together."""
    branches = [find_branch(program, loop) for loop in loops]
    top = next(b for b in branches if all(_depth(b, other) is not None for other in branches))
    for branch, loop in zip(sorted(branches, key=lambda b: _depth(top, b) or 0), loops, strict=True):
        branch.loop = loop


def _depth(branch: Branch, other: Branch) -> int | None:
    """Levels from a branch down to another; None when it is not below. Reordered chains do not fork."""
    depth = 0
    while branch is not other:
        below = [c for c in branch.children if isinstance(c, Branch)]
        if len(below) != 1:
            return None
        branch, depth = below[0], depth + 1
    return depth
