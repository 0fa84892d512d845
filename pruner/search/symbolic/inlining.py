"""`compute_inline` and `reverse_compute_inline` on a `Program`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pruner.search.nest import Access, Linear, Loop
from pruner.search.symbolic.affine import add, constant, same_form, substitute
from pruner.search.symbolic.dependence import consumers, producers
from pruner.search.symbolic.polynomial import equal
from pruner.search.symbolic.program import Block, Program, Region, UnsupportedSketch


def compute_inline(program: Program, block: Block) -> None:
    """Puts the block's value wherever it is read."""
    target = block.writes[0]
    for user in consumers(program, block):
        program.replace_block(user, _inlined(user, block, target))
    program.remove(block)


def _inlined(user: Block, block: Block, target: Access) -> Block:
    reads: list[tuple[Access, int]] = []
    regions: list[Region] = []
    ops = dict(user.ops)
    for read, times in zip(user.reads, user.loads, strict=True):
        if read.buffer is not target.buffer:
            reads.append((read, times))
            continue
        values: dict[Loop, Linear] = {}
        for index, form in zip(target.index, read.index, strict=True):
            for term in index.terms:
                assert isinstance(term, Loop)
                values[term] = form
        for axis in block.axes:
            values.setdefault(axis.domain, constant(0))
        for inner, count in zip(block.reads, block.loads, strict=True):
            moved = tuple(substitute(form, values) for form in inner.index)
            reads.append((Access(inner.buffer, moved), times * count))
        for region in block.read_regions:
            least = tuple(substitute(form, values) for form in region.least)
            regions.append(replace(region, least=least))
        for kind, count in block.ops.items():
            ops[kind] = ops.get(kind, 0) + times * count
    kept = [r for r in user.read_regions if r.buffer is not target.buffer]
    accesses, loads = _distinct(reads)
    return replace(user, reads=accesses, loads=loads, read_regions=_hulls([*kept, *regions]), ops=ops)


def _distinct(reads: Iterable[tuple[Access, int]]) -> tuple[tuple[Access, ...], tuple[int, ...]]:
    """Reads and how often each is made, equal ones together."""
    found: list[Access] = []
    loads: list[int] = []
    for read, times in reads:
        for i, other in enumerate(found):
            if read.buffer is other.buffer and all(map(same_form, read.index, other.index)):
                loads[i] += times
                break
        else:
            found.append(read)
            loads.append(times)
    return tuple(found), tuple(loads)


def _hulls(regions: Iterable[Region]) -> tuple[Region, ...]:
    """One region per buffer, as TVM keeps them; opaque where the hull has no constant size."""
    found: list[Region] = []
    for region in regions:
        known = next((i for i, other in enumerate(found) if other.buffer is region.buffer), None)
        if known is None:
            found.append(region)
            continue
        other, least, lengths, affine = found[known], [], [], region.affine and found[known].affine
        for a, b, m, n in zip(region.least, other.least, region.lengths, other.lengths, strict=True):
            if same_form(a, b):
                least.append(a)
                lengths.append(max(m, n))
                continue
            gap = add(b, a, -1)
            affine = affine and not gap.terms and isinstance(gap.const, int)
            shift = gap.const if isinstance(gap.const, int) else 0
            least.append(a if shift >= 0 else b)
            lengths.append(max(m, shift + n) - min(0, shift))
        found[known] = Region(region.buffer, tuple(least), tuple(lengths), affine)
    return tuple(found)


def reverse_compute_inline(program: Program, block: Block) -> None:
    """Puts a consumer's work into its one producer, whose value stands wherever the consumer reads it. Like
    TVM, does not look for other consumers."""
    source = producers(program, block)
    if len(source) != 1 or source[0].has_init:
        raise UnsupportedSketch(f"Block {block.name} is not inlined into one producer that copies.")
    producer = source[0]
    target = producer.writes[0]
    values: dict[Loop, Linear] = {}
    for read in block.reads:
        if read.buffer is target.buffer:
            for form, index in zip(read.index, target.index, strict=True):
                if len(form.terms) == 1 and equal(next(iter(form.terms.values())), 1):
                    term = next(iter(form.terms))
                    if isinstance(term, Loop):
                        values[term] = add(index, constant(form.const), -1)
    for axis in block.axes:
        values.setdefault(axis.domain, constant(0))

    def moved(forms: tuple[Linear, ...]) -> tuple[Linear, ...]:
        return tuple(substitute(form, values) for form in forms)

    outer = [
        (Access(r.buffer, moved(r.index)), times)
        for r, times in zip(block.reads, block.loads, strict=True)
        if r.buffer is not target.buffer
    ]
    copies = sum(t for r, t in zip(block.reads, block.loads, strict=True) if r.buffer is target.buffer)
    inner = [(r, times * copies) for r, times in zip(producer.reads, producer.loads, strict=True)]
    reads, loads = _distinct([*inner, *outer])
    regions = [r for r in block.read_regions if r.buffer is not target.buffer]
    ops = {kind: count * copies for kind, count in producer.ops.items()}
    for kind, count in block.ops.items():
        ops[kind] = ops.get(kind, 0) + count
    merged = replace(
        producer,
        reads=reads,
        loads=loads,
        read_regions=_hulls([*producer.read_regions, *(replace(r, least=moved(r.least)) for r in regions)]),
        writes=tuple(Access(w.buffer, moved(w.index)) for w in block.writes),
        write_regions=tuple(replace(r, least=moved(r.least)) for r in block.write_regions),
        ops=ops,
        dtype=block.dtype,
    )
    program.replace_block(producer, merged)
    program.remove(block)
