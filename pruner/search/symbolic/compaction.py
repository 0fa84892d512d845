"""The shape that TVM's `CompactBufferAllocation` gives a buffer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pruner.search.nest import Access, Buffer, Extent, Floor, Linear, Loop
from pruner.search.symbolic.affine import extremes, is_multiple
from pruner.search.symbolic.polynomial import at_most, both, choose, either, larger, negate, same, smaller
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
            inside, plain, halves = _base(term, relaxed)
            several, quotient, single = _moved(term, relaxed)
            wrong = either(both(either(several, single), negate(plain)), quotient)
            blocks = extremes(term.inner)[1] // term.divisor + 2 + both(quotient, negate(halves))
            needed = choose(both(both(fills, inside), wrong), blocks * scale, needed)
    return needed


def _base(term: Floor, relaxed: Collection[Loop]) -> tuple[Extent, Extent, Extent]:
    """Of the base of a floor division: whether it moves inside a block by the width that the relaxed terms
    have, whether it is made of whole loops, and whether two of its steps make a block."""
    width = relax(term.inner, relaxed).length
    inside: Extent = 0
    plain: Extent = 1
    for base, step in term.inner.terms.items():
        if _loops(base) & set(relaxed) or is_multiple(step, term.divisor):
            continue
        moves = negate(same(_length(base), 1))
        divides = both(same(term.divisor % step, 0), at_most(step, term.divisor - 1))
        inside = either(inside, both(moves, both(divides, same(step, width))))
        plain = both(plain, either(negate(moves), _is_whole(base)))
    return inside, plain, same(width * 2, term.divisor)


def _moved(term: Floor, relaxed: Collection[Loop]) -> tuple[Extent, Extent, Extent]:
    """Of the relaxed terms of a floor division that move: whether there are several, whether the only one is
    the quotient of a fused loop, and whether the only one is a whole loop."""
    count: Extent = 0
    quotient: Extent = 0
    single: Extent = 0
    for part in term.inner.terms:
        if not _loops(part) & set(relaxed):
            continue
        moves = negate(same(_length(part), 1))
        count = count + moves
        quotient = either(quotient, both(moves, both(_reaches_end(part), negate(_is_whole(part)))))
        single = either(single, both(moves, _is_whole(part)))
    alone = same(count, 1)
    return negate(either(alone, same(count, 0))), both(alone, quotient), both(alone, single)


def _loops(term: Loop | Floor) -> set[Loop]:
    return {term} if isinstance(term, Loop) else term.inner.loops()


def _length(term: Loop | Floor) -> Extent:
    """The values that a loop, or a part of a fused loop, takes."""
    return extremes(Linear({term: 1}))[1] + 1


def _is_whole(term: Loop | Floor) -> Extent:
    """1 where a part of a fused loop is all of it."""
    [*loops] = _loops(term)
    return same(_length(term), loops[0].extent) if len(loops) == 1 else 0


def _reaches_end(term: Loop | Floor) -> Extent:
    """1 where no other part stands outside this part of a fused loop, so that it is no remainder."""
    if isinstance(term, Loop) or not term.remainder:
        return 1
    [*loops] = term.inner.loops()
    [*inner] = term.inner.terms
    below = inner[0].divisor if isinstance(inner[0], Floor) else 1
    return same(below * _length(term), loops[0].extent) if len(loops) == 1 else 0
