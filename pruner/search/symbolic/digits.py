"""Parts of fused loops. A loop fused from others stands for each of them as `loop // below % length`, the
outermost without the remainder, the innermost without the division."""

from __future__ import annotations

from pruner.search.nest import Extent, Floor, Linear, Loop
from pruner.search.symbolic.affine import extremes
from pruner.search.symbolic.comparison import same

Term = Loop | Floor


def loops_of(term: Term) -> set[Loop]:
    """The loops that a term moves with."""
    return {term} if isinstance(term, Loop) else term.inner.loops()


def length_of(term: Term) -> Extent:
    """The values that a term takes, which start at 0."""
    return extremes(Linear({term: 1}))[1] + 1


def below(term: Term) -> Extent:
    """Iterations of what is fused inside a part, 1 where it is the innermost."""
    if isinstance(term, Loop):
        return 1
    if not term.remainder:
        return term.divisor
    [*inner] = term.inner.terms
    return inner[0].divisor if isinstance(inner[0], Floor) else 1


def is_whole(term: Term) -> Extent:
    """1 where a part is all of its loop."""
    [*loops] = loops_of(term)
    return same(length_of(term), loops[0].extent) if len(loops) == 1 else 0


def is_outermost(term: Term) -> Extent:
    """1 where nothing is fused outside a part, so that it is no remainder."""
    if isinstance(term, Loop) or not term.remainder:
        return 1
    [*loops] = loops_of(term)
    return same(below(term) * length_of(term), loops[0].extent) if len(loops) == 1 else 0
