"""Which part of a buffer, and of a block's axes, a subtree of loops needs: TVM's `compute_at` in formulas.

A region is relaxed over the loops below the attachment point by interval arithmetic. For an affine index
the length is `1 + sum |c| (extent - 1)`. A floor division gives a constant length only where the base's
steps cannot move it across a block boundary in different ways.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from pruner.search.nest import Extent, Floor, Linear, Loop
from pruner.search.symbolic.affine import (
    add,
    constant,
    extremes,
    floor_term,
    is_multiple,
    is_one,
    is_zero,
    scale,
)
from pruner.search.symbolic.comparison import (
    at_most,
    both,
    choose,
    divisor,
    either,
    larger,
    negate,
    negative,
    same,
    smaller,
)
from pruner.search.symbolic.digits import below, length_of, loops_of


@dataclass(frozen=True)
class Span:
    """The values `least .. least + length - 1`. `constant` is 1 in the rows where TVM finds the length to
    be one number whatever the outer loops do, `alone` in those where it would if no other term moved.
    `level` is 0 where TVM moves the upper end with an outer loop and the lower end not, so that neither the
    length nor the upper end is a number to it."""

    least: Linear
    length: Extent
    constant: Extent = 1
    alone: Extent = 1
    level: Extent = 1


def relax(form: Linear, relaxed: Collection[Loop]) -> Span:
    """The span of a form while `relaxed` runs, over the other loops."""
    least = constant(form.const)
    moved: Extent = 0
    spans: list[Span] = []
    for term, coefficient in form.terms.items():
        if isinstance(term, Loop):
            inside = term in relaxed
            span = Span(constant(0) if inside else Linear({term: 1}), term.extent if inside else 1)
        else:
            span = _relax_floor(term, relaxed)
        spans.append(span)
        least = add(least, span.least, coefficient)
        distance = coefficient * (span.length - 1)
        if negative(coefficient):
            least = Linear(least.terms, least.const + distance)
            distance = -distance
        moved = moved + distance
    fixed: Extent = 1
    for span in spans:
        others: Extent = 1
        for other in spans:
            if other is not span:
                others = both(others, same(other.length, 1))
        fixed = both(fixed, either(span.constant, both(span.alone, others)))
    fixed = both(fixed, negate(_hidden(form, relaxed)))
    level: Extent = 1
    for span in spans:
        level = both(level, span.level)
    return Span(least, moved + 1, fixed, fixed, level)


def _hidden(form: Linear, relaxed: Collection[Loop]) -> Extent:
    """1 where a bare division's base is a part of a fused loop times what is fused inside the part: TVM takes
    the lower end's `loop // below * below // divisor` for `loop // divisor`, and then cannot tell how far the
    upper end is from it."""
    moving = [term for term in form.terms if not is_one(length_of(term))]
    if len(moving) != 1 or not is_one(form.terms[moving[0]]) or not is_zero(form.const):
        return 0
    term = moving[0]
    if not isinstance(term, Floor) or term.remainder or is_one(at_most(term.divisor, 3)):
        return 0  # a step inside a block, but not of one, divides at least 4
    hidden: Extent = 0
    for base, step in term.inner.terms.items():
        if not loops_of(base) & set(relaxed) and not is_multiple(step, term.divisor):
            moves = both(at_most(2, length_of(base)), at_most(2, step))
            inside = both(same(term.divisor % step, 0), at_most(step, term.divisor - 1))
            hidden = either(hidden, both(both(moves, inside), same(below(base), step)))
    several: Extent = at_most(2, relax(term.inner, relaxed).length)
    hidden = both(hidden, several)
    return hidden


def _relax_floor(term: Floor, relaxed: Collection[Loop]) -> Span:
    """TVM evaluates the division at both ends of the inner interval and has to prove their distance
    constant. With base steps of gcd h (after gcd with the divisor) and r = base mod h, it is constant when
    `(r + n - 1) // d == (r + d - h + n - 1) // d`. TVM proves that much when nothing else moves in the
    index; beside another moving term it only compares both ends after simplifying each by itself."""
    inner = relax(term.inner, relaxed)
    d, n = term.divisor, inner.length
    if isinstance(n, int) and n == 1:
        least = floor_term(inner.least, d, term.remainder)
        return replace(inner, least=least, length=1, alone=inner.constant)
    offset = inner.least.const
    if not inner.least.terms:
        return _still(offset, n, d, term.remainder, inner.constant)
    low, high = extremes(term.inner)
    one_block = same(low // d, high // d)
    step, reach, chained = _steps(inner.least, d)
    h = divisor(step, d)
    start = offset % h
    last = (start + d - h + n - 1) // d
    if term.remainder:
        stays = both(either(one_block, same(last, 0)), inner.constant)
        level = both(inner.level, negate(both(_drops(term, relaxed), at_most(1, reach))))
        least = scale(floor_term(inner.least, d, True), stays)
        return Span(least, choose(stays, n, d), level, level, level)
    factored = both(chained, either(same(step, 0), at_most(offset + n, step)))
    exact = either(same(n, 1), both(same((n - 1) % d, 0), same(offset % d, 0)))
    settled = both(at_most(offset % d + reach, d - 1), at_most((offset + n - 1) % d + reach, d - 1))
    proved = either(either(one_block, settled), either(exact, factored))
    # What is left of the offset after factoring a common step out of one end alone keeps the ends apart.
    apart = both(both(at_most(2, h), at_most(h, offset)), chained)
    steady = both(same((start + n - 1) // d, last), choose(apart, 0, 1))
    return Span(
        floor_term(inner.least, d, False),
        choose(one_block, 1, choose(settled, (offset % d + n - 1) // d + 1, last + 1)),
        both(inner.constant, proved),
        both(inner.constant, either(proved, steady)),
        inner.level,
    )


def _drops(term: Floor, relaxed: Collection[Loop]) -> Extent:
    """1 where a relaxed loop moves by multiples of the divisor, which TVM drops from a remainder at the upper
    end alone: with a base that moves, the ends are then not equally far apart."""
    drops: Extent = 0
    for part, step in term.inner.terms.items():
        if loops_of(part) & set(relaxed):
            drops = either(drops, both(at_most(2, length_of(part)), same(step % term.divisor, 0)))
    return drops


def _still(first: Extent, length: Extent, d: Extent, remainder: bool, fixed: Extent) -> Span:
    """The span of a division of `first .. first + length - 1`, where nothing else moves."""
    low, high = first // d, (first + length - 1) // d
    if not remainder:
        return Span(constant(low), high - low + 1, fixed, fixed)
    if is_multiple(first, d) and is_multiple(length, d):
        return Span(constant(0), d, fixed, fixed)
    inside = same(low, high)
    return Span(constant(choose(inside, first - low * d, 0)), choose(inside, length, d), fixed, fixed)


def _steps(form: Linear, modulus: Extent) -> tuple[Extent, Extent, Extent]:
    """Of the moves that are no multiples of the modulus: their greatest common divisor (0 where there are
    none), how far they reach together modulo it, and whether each of them divides it."""
    result: Extent = 0
    reach: Extent = 0
    chained: Extent = 1
    for term, coefficient in form.terms.items():
        first, last = extremes(Linear({term: 1}))
        rest = coefficient % modulus
        still = either(same(first, last), same(rest, 0))
        result = divisor(result, choose(still, 0, coefficient))
        reach = reach + rest * (last - first)
        chained = both(chained, either(still, same(modulus % coefficient, 0)))
    return result, reach, chained


def union(a: Span, b: Span) -> Span:
    """The hull of two spans."""
    gap = add(b.least, a.least, -1)  # b - a
    high = add(Linear(gap.terms, gap.const + b.length), constant(a.length), -1)  # end of b - end of a
    low_gap, high_gap = extremes(gap), extremes(high)
    ordered = both(
        either(at_most(0, low_gap[0]), either(at_most(low_gap[1], 0), same(*low_gap))),
        either(at_most(0, high_gap[0]), either(at_most(high_gap[1], 0), same(*high_gap))),
    )
    b_first = at_most(low_gap[1], 0)
    least = _pick(b_first, b.least, a.least)
    b_last = at_most(0, high_gap[0])
    end = _pick(
        b_last,
        Linear(b.least.terms, b.least.const + b.length),
        Linear(a.least.terms, a.least.const + a.length),
    )
    length = add(end, least, -1)
    still = same(*extremes(length))
    fixed = both(both(a.constant, b.constant), both(ordered, still))
    return Span(least, extremes(length)[1], fixed, fixed, both(a.level, b.level))


def _pick(condition: Extent, yes: Linear, no: Linear) -> Linear:
    if isinstance(condition, int):
        return yes if condition else no
    terms: dict[Loop | Floor, Extent] = {}
    for term in [*yes.terms, *no.terms]:
        if term not in terms:
            terms[term] = choose(condition, yes.terms.get(term, 0), no.terms.get(term, 0))
    return Linear(terms, choose(condition, yes.const, no.const))


def within(span: Span, size: Extent) -> Span:
    """The span an axis of `size` gets for a required one: what surely covers the axis becomes the axis,
    constant ends are clipped to it, and other excess stays (TVM guards it with a predicate)."""
    low, low_most = extremes(span.least)
    high, high_most = low + span.length - 1, low_most + span.length - 1
    inside = both(at_most(0, low), at_most(high_most, size - 1))
    if isinstance(inside, int) and inside:
        return span
    fixed_low = either(same(low, low_most), at_most(low_most, 0))
    fixed_high = either(same(high, high_most), at_most(size - 1, high))
    cut = both(both(fixed_low, fixed_high), span.level)
    least = larger(low_most, 0)
    length = smaller(high, size - 1) - least + 1
    return Span(
        _pick(cut, constant(least), span.least),
        choose(cut, length, span.length),
        either(cut, span.constant),
        either(cut, span.constant),
    )
