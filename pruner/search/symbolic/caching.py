"""`cache_read`, `cache_write` and `set_scope` on a `Program`: where buffers live."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pruner.search.nest import Access, Buffer, Linear, Loop
from pruner.search.symbolic.affine import add, constant
from pruner.search.symbolic.dependence import contains, writers
from pruner.search.symbolic.placement import touched
from pruner.search.symbolic.program import Axis, Block, Branch, Program, Region, UnsupportedSketch
from pruner.search.symbolic.regions import Span


def cache_read(program: Program, block: Block, index: int, scope: str, readers: Sequence[Block]) -> Block:
    """`readers` (all blocks that read it, when there are none) read a copy of the block's buffer in `scope`;
    a new block at the root, before the first of them, fills it."""
    source = block.read_regions[index].buffer
    made = writers(program, source)
    users = [b for b in readers or [b for b, _ in program.blocks()] if b not in made]
    place = next(i for i, child in enumerate(program.root.children) if any(contains(child, u) for u in users))
    if len(made) > 1 or program.reads_part or any(contains(program.root.children[place], b) for b in made):
        raise UnsupportedSketch(f"Buffer {source.name} is not cached as a whole before its readers.")
    cache = _cached(source, scope)
    for user in users:
        program.replace_block(user, _reading(user, source, cache))
    whole = [Span(constant(0), dim) for dim in source.shape]
    return _insert_copy(program, cache.name, source, cache, whole, place if made else 0)


def cache_write(program: Program, block: Block, index: int, scope: str) -> Block:
    """The block writes a copy of its buffer in `scope`; a new block at the root moves it to the buffer."""
    region = block.write_regions[index]
    cache = _cached(region.buffer, scope)
    path = program.path(block)
    around = {branch.loop for branch in path if branch.loop is not None}
    spans = [
        touched(form, length, block, around)
        for form, length in zip(region.least, region.lengths, strict=True)
    ]
    renamed = _writing(_reading(block, region.buffer, cache), region.buffer, cache)
    program.replace_block(block, renamed)
    place = next(i for i, child in enumerate(program.root.children) if contains(child, renamed))
    return _insert_copy(program, cache.name, cache, region.buffer, spans, place + 1)


def set_scope(program: Program, block: Block, index: int, scope: str) -> None:
    """The buffer that the block writes lives in `scope`."""
    old = block.write_regions[index].buffer
    new = _cached(old, scope)
    for other, _ in program.blocks():
        if any(region.buffer is old for region in (*other.read_regions, *other.write_regions)):
            program.replace_block(other, _writing(_reading(other, old, new), old, new))


def _cached(buffer: Buffer, scope: str) -> Buffer:
    return replace(buffer, name=f"{buffer.name}_{scope}", scope=scope, argument=False)


def _swapping(old: Buffer, new: Buffer) -> tuple[Callable[[Access], Access], Callable[[Region], Region]]:
    def access(touch: Access) -> Access:
        return Access(new, touch.index) if touch.buffer is old else touch

    def region(part: Region) -> Region:
        return replace(part, buffer=new) if part.buffer is old else part

    return access, region


def _reading(block: Block, old: Buffer, new: Buffer) -> Block:
    access, region = _swapping(old, new)
    return replace(
        block,
        reads=tuple(map(access, block.reads)),
        read_regions=tuple(map(region, block.read_regions)),
    )


def _writing(block: Block, old: Buffer, new: Buffer) -> Block:
    access, region = _swapping(old, new)
    return replace(
        block,
        writes=tuple(map(access, block.writes)),
        write_regions=tuple(map(region, block.write_regions)),
    )


def _insert_copy(
    program: Program, name: str, source: Buffer, target: Buffer, spans: Sequence[Span], place: int
) -> Block:
    """A block that moves the spanned part of a buffer to another one, as the root's child `place`."""
    axes = tuple(Axis(Loop(dim, name=f"v{n}")) for n, dim in enumerate(source.shape))
    loops = [Loop(span.length, name=f"ax{n}") for n, span in enumerate(spans)]
    binding = {
        axis.domain: add(span.least, Linear({loop: 1}))
        for axis, loop, span in zip(axes, loops, spans, strict=True)
    }
    whole = tuple(Linear({axis.domain: 1}) for axis in axes)
    ones = (1,) * len(axes)
    copy = Block(
        name=name,
        axes=axes,
        binding=binding,
        reads=(Access(source, whole),),
        writes=(Access(target, whole),),
        read_regions=(Region(source, whole, ones),),
        write_regions=(Region(target, whole, ones),),
        ops={},
        dtype=target.dtype,
        has_init=False,
        single_store=True,
        loads=(1,),
    )
    node: Branch | Block = copy
    for loop in reversed(loops):
        node = Branch(loop, [node])
    program.root.children.insert(place, node)
    program.changed()
    return copy
