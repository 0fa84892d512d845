"""`rfactor` on a `Program`: a reduction loop becomes data parallel in a block of its own."""

from __future__ import annotations

from dataclasses import replace

from pruner.search.nest import Access, Linear, Loop
from pruner.search.symbolic.affine import substitute
from pruner.search.symbolic.program import Axis, Block, Branch, Program, Region


def rfactor(program: Program, block: Block, loop: Loop, position: int) -> tuple[Block, Block]:
    """Makes a reduction loop data parallel in a new block, and reduces that block's buffers in the old
    one: (new block, the rest of the old one). `position` is the new dimension's place."""
    path = program.path(block)
    loops = tuple(b.loop for b in path[1:] if b.loop is not None)
    parallel = Axis(Loop(loop.extent, name=f"v{loop.name}"))
    copies = {old: Loop(old.extent, name=old.name) for old in loops}
    renamed = {old: Linear({new: 1}) for old, new in copies.items()}
    axes, binding = [parallel], {parallel.domain: renamed[loop]}
    values: dict[Loop, Linear] = {}
    made = {loop: Linear({parallel.domain: 1})}
    for axis in block.axes:
        form = block.binding[axis.domain]
        touched = form.loops()
        if not axis.reduce or loop not in touched:
            axes.append(axis)
            binding[axis.domain] = substitute(form, renamed)
            continue
        for old in loops:
            if old in touched and old not in made:
                new = Axis(Loop(old.extent, name=f"v{old.name}"), reduce=True)
                made[old] = Linear({new.domain: 1})
                axes.append(new)
                binding[new.domain] = renamed[old]
        values[axis.domain] = substitute(form, made)
    partial = {
        id(w.buffer): replace(
            w.buffer,
            name=f"{w.buffer.name}_rf",
            shape=(*w.buffer.shape[:position], loop.extent, *w.buffer.shape[position:]),
            argument=False,
        )
        for w in block.writes
    }

    def widen(index: tuple[Linear, ...], extra: Linear) -> tuple[Linear, ...]:
        return (*index[:position], extra, *index[position:])

    def moved(index: tuple[Linear, ...]) -> tuple[Linear, ...]:
        return tuple(substitute(form, values) for form in index)

    first = Linear({parallel.domain: 1})
    ones = {id(r): (*r.lengths[:position], 1, *r.lengths[position:]) for r in block.write_regions}
    accumulates = any(axis.reduce for axis in axes)
    new_block = replace(
        block,
        name=f"{block.name}_rf",
        identity=object(),
        axes=tuple(axes),
        binding=binding,
        reads=tuple(Access(r.buffer, moved(r.index)) for r in block.reads),
        writes=tuple(Access(partial[id(w.buffer)], widen(moved(w.index), first)) for w in block.writes),
        read_regions=tuple(replace(r, least=moved(r.least)) for r in block.read_regions),
        write_regions=tuple(
            Region(partial[id(r.buffer)], widen(moved(r.least), first), ones[id(r)])
            for r in block.write_regions
        ),
        ops=block.ops if accumulates else _without(block.ops, _combiner(block)),
        has_init=accumulates,
        single_store=block.single_store and len(block.writes) == 1,
    )
    rest_axis = Axis(Loop(loop.extent, name=f"v{loop.name}"), reduce=True)
    kept = [axis for axis in block.axes if not axis.reduce]
    # Fresh placeholders, so that the two blocks' axes stay apart.
    fresh = {axis.domain: Axis(Loop(axis.domain.extent, name=axis.domain.name)) for axis in kept}
    values_rest = {old: Linear({axis.domain: 1}) for old, axis in fresh.items()}
    last = Linear({rest_axis.domain: 1})

    def rest(index: tuple[Linear, ...]) -> tuple[Linear, ...]:
        return tuple(substitute(form, values_rest) for form in index)

    partial_reads = tuple(Access(partial[id(w.buffer)], widen(rest(w.index), last)) for w in block.writes)
    old_block = replace(
        block,
        axes=(rest_axis, *fresh.values()),
        binding={
            rest_axis.domain: Linear({loop: 1}),
            **{axis.domain: block.binding[old] for old, axis in fresh.items()},
        },
        reads=partial_reads,
        loads=(1,) * len(partial_reads),
        writes=tuple(Access(w.buffer, rest(w.index)) for w in block.writes),
        read_regions=tuple(Region(r.buffer, r.index, (1,) * len(r.index)) for r in partial_reads),
        write_regions=tuple(replace(r, least=rest(r.least)) for r in block.write_regions),
        ops=_combiner(block),
    )
    reducing = {t for axis in block.axes if axis.reduce for t in block.binding[axis.domain].loops()}
    node: Branch | Block = old_block
    for old in reversed(loops):
        if old is loop or old not in reducing:
            node = Branch(old, [node])
    top = path[1]
    new_node: Branch | Block = new_block
    for old in reversed(loops):
        new_node = Branch(copies[old], [new_node])
    place = next(i for i, child in enumerate(program.root.children) if child is top)
    program.root.children[place : place + 1] = [new_node, node]
    program.changed()
    return new_block, old_block


def _combiner(block: Block) -> dict[str, int]:
    """Operations of the reduction step alone: what a block does to combine, given one value per buffer.
    A reduction of several buffers at once compares and selects."""
    if block.combiner:
        return {block.combiner: 1}
    return {kind: n for kind, n in block.ops.items() if kind in ("cmp", "select")}


def _without(ops: object, part: dict[str, int]) -> dict[str, int]:
    assert isinstance(ops, dict)
    return {kind: n - part.get(kind, 0) for kind, n in ops.items() if n > part.get(kind, 0)}
