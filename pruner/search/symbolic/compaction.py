"""The shape that TVM's `CompactBufferAllocation` gives a buffer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pruner.search.nest import Access, Buffer, Extent, Floor, Linear, Loop
from pruner.search.symbolic.affine import extremes
from pruner.search.symbolic.comparison import (
    at_most,
    both,
    choose,
    divisor,
    either,
    larger,
    negate,
    same,
    smaller,
)
from pruner.search.symbolic.digits import is_outermost, is_whole, length_of, loops_of
from pruner.search.symbolic.regions import relax


def allocated(
    buffer: Buffer, writes: Sequence[Access], reads: Sequence[Access], relaxed: Collection[Loop]
) -> tuple[Extent, ...]:
    """The dimensions of a buffer that lives outside the `relaxed` loops: what is written while they run. All
    that is read was written, so that reads add nothing, but see `_doubted`."""
    dims: list[Extent] = []
    for n, dim in enumerate(buffer.shape):
        lengths = [smaller(relax(write.index[n], relaxed).length, dim) for write in writes]
        needed = lengths[0]
        for length in lengths[1:]:
            needed = larger(needed, length)
        for read in reads:
            needed = _doubted(read.index[n], relaxed, needed)
        dims.append(needed)
    return tuple(dims)


def _doubted(index: Linear, relaxed: Collection[Loop], needed: Extent) -> Extent:
    """What a read `scale * (inner // divisor) + rest` makes of a dimension that its writes need `needed` of.

    A base that moves inside a block of the division, as it does where a thread block has a part of a
    convolution's group, is `base // divisor` for the writes. For a read whose rest fills a block TVM finds an
    affine map, which pads the base to `(base - base % divisor) // divisor`. That is the same, but TVM cannot
    prove it of a base that is part of a fused loop, and bounds the hull of both by all blocks and one more,
    since it takes `base - base % divisor` to reach below zero. A relaxed part that is itself a remainder of
    a fused loop gives no affine map, and all is well; one that is a quotient always gives another base, two
    blocks too many where it takes more than two bases to a block."""
    for term, scale in index.terms.items():
        if isinstance(term, Floor) and not term.remainder:
            rest = Linear({t: c for t, c in index.terms.items() if t is not term}, index.const)
            fills = same(relax(rest, relaxed).length, scale)
            inside, proved, halves = _base(term, relaxed)
            several, quotient, single = _moved(term, relaxed)
            wrong = either(both(either(several, single), negate(proved)), quotient)
            blocks = extremes(term.inner)[1] // term.divisor + 2 + both(quotient, negate(halves))
            needed = choose(both(both(fills, inside), wrong), blocks * scale, needed)
    return needed


def _base(term: Floor, relaxed: Collection[Loop]) -> tuple[Extent, Extent, Extent]:
    """Of the base of a floor division: whether it is one term that moves inside a block, by the width of the
    relaxed terms; whether it is a whole loop whose steps divide a block, so that TVM can prove both forms
    equal; whether it comes to the start of a block with every second step."""
    width = relax(term.inner, relaxed).length
    turns = term.divisor // divisor(term.divisor, width)
    count: Extent = 0
    inside: Extent = 0
    proved: Extent = 1
    for base, step in term.inner.terms.items():
        if loops_of(base) & set(relaxed):
            continue
        length = length_of(base)
        moves = negate(same(length, 1))
        count = count + moves
        starts_inside = both(at_most(2, turns), at_most(turns + 1, length))
        inside = either(inside, both(same(step, width), starts_inside))
        plain = both(is_whole(base), same(term.divisor % step, 0))
        proved = both(proved, either(negate(moves), plain))
    return both(inside, same(count, 1)), proved, same(turns, 2)


def _moved(term: Floor, relaxed: Collection[Loop]) -> tuple[Extent, Extent, Extent]:
    """Of the relaxed terms of a floor division that move: whether there are several, whether the only one is
    the quotient of a fused loop, and whether the only one is a whole loop."""
    count: Extent = 0
    quotient: Extent = 0
    single: Extent = 0
    for part in term.inner.terms:
        if not loops_of(part) & set(relaxed):
            continue
        moves = negate(same(length_of(part), 1))
        count = count + moves
        quotient = either(quotient, both(moves, both(is_outermost(part), negate(is_whole(part)))))
        single = either(single, both(moves, is_whole(part)))
    alone = same(count, 1)
    return negate(either(alone, same(count, 0))), both(alone, quotient), both(alone, single)
