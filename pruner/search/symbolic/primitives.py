"""Loop transformations on a `Program`. All change the tree in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pruner.search.nest import Extent, Linear, Loop, product
from pruner.search.symbolic.affine import add, constant, floor_term, substitute
from pruner.search.symbolic.polynomial import equal, whole
from pruner.search.symbolic.program import Block, Branch, Program, UnsupportedSketch


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


def alter(
    program: Program, loop: Loop, kind: str | None = None, note: tuple[str, object] | None = None
) -> Loop:
    """The loop with another kind or one more annotation. Loops are shared by cloned programs, so a new one
    takes its place."""
    annotations = loop.annotations if note is None else {**loop.annotations, note[0]: note[1]}
    new = replace(loop, kind=kind or loop.kind, annotations=annotations)
    branch = find_branch(program, loop)
    _rebind(program, branch, {loop: Linear({new: 1})})
    branch.loop = new
    program.changed()
    return new


def split(program: Program, loop: Loop, factors: Sequence[Extent | None]) -> list[Loop]:
    """Loops of the given extents, outermost first, in place of one. An open factor (None) is as large as
    it must be: then their product may exceed the loop's extent, and a predicate guards the excess."""
    known = product(factor for factor in factors if factor is not None)
    if None not in factors and not equal(known, loop.extent):
        raise UnsupportedSketch(f"Loop {loop.name} is split into factors that need not divide it.")
    rest = (loop.extent - 1) // known + 1
    branch = find_branch(program, loop)
    loops = [Loop(rest if f is None else f, name=f"{loop.name}_{i}") for i, f in enumerate(factors)]
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
    extents = [whole(loop.extent) for loop in loops]
    fused = Loop(product(extents), name="_".join([p.name for p in loops]) + "_fused")
    outer, inner = find_branch(program, loops[0]), find_branch(program, loops[-1])
    values: dict[Loop, Linear] = {}
    below: Extent = 1
    for loop, extent in zip(reversed(loops), reversed(extents), strict=True):
        digit = floor_term(Linear({fused: 1}), below, False)
        values[loop] = digit if loop is loops[0] else floor_term(digit, extent, True)
        below = below * extent
    _rebind(program, inner, values)
    outer.loop, outer.children = fused, inner.children
    program.changed()
    return fused


def add_unit_loop(program: Program, inside: Loop | Block) -> Loop:
    """A new loop of one turn around a loop or a block."""
    new = Loop(1, name="u")
    if isinstance(inside, Loop):
        branch = find_branch(program, inside)
        branch.loop, branch.children = new, [Branch(inside, branch.children)]
    else:
        children = program.path(inside)[-1].children
        place = next(i for i, child in enumerate(children) if child is inside)
        children[place] = Branch(new, [inside])
    program.changed()
    return new


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
