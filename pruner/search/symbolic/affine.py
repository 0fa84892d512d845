"""Index expressions of TVM as `Linear` forms over loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm import tirx
from tvm.ir import Expr, Var

from pruner.search.nest import Extent, Floor, Linear, Loop
from pruner.search.symbolic.comparison import at_most, choose, negative, same
from pruner.search.symbolic.polynomial import equal


class NotAffine(Exception):
    """An index that is no sum of loops, floor divisions and remainders (a table look-up, say)."""


def is_number(value: Extent) -> bool:
    """Whether a value is one number for all rows."""
    return isinstance(value, int)


def is_zero(value: Extent) -> bool:
    """Whether a value is the number 0 in every row."""
    return isinstance(value, int) and value == 0


def is_one(value: Extent) -> bool:
    """Whether a value is the number 1 in every row."""
    return isinstance(value, int) and value == 1


def constant(value: Extent) -> Linear:
    """A form without loops."""
    return Linear({}, value)


def add(a: Linear, b: Linear, factor: Extent = 1) -> Linear:
    """`a + factor * b`."""
    terms = dict(a.terms)
    for term, coefficient in b.terms.items():
        total = terms.get(term, 0) + factor * coefficient
        if is_zero(total):
            terms.pop(term, None)
        else:
            terms[term] = total
    return Linear(terms, a.const + factor * b.const)


def scale(a: Linear, factor: Extent) -> Linear:
    """`factor * a`."""
    if is_zero(factor):
        return constant(0)
    return Linear({term: factor * coefficient for term, coefficient in a.terms.items()}, factor * a.const)


def is_multiple(value: Extent, of: Extent) -> bool:
    """Whether a coefficient is a multiple of a divisor in every row."""
    return equal(value % of, 0)


def floor_term(inner: Linear, divisor: Extent, remainder: bool) -> Linear:
    """`inner // divisor` or `inner % divisor`, without a floor term where the division is exact or the
    value provably stays below the divisor."""
    if is_one(divisor):
        return constant(0) if remainder else inner
    rest = {t: c for t, c in inner.terms.items() if not is_multiple(c, divisor)}
    whole = {t: c // divisor for t, c in inner.terms.items() if t not in rest}
    if not rest and is_number(inner.const) and (is_number(divisor) or is_zero(inner.const)):
        return constant(inner.const % divisor) if remainder else Linear(whole, inner.const // divisor)
    tail = Linear(rest, inner.const)
    low, high = extremes(tail)
    if is_one(at_most(0, low)) and is_one(at_most(high, divisor - 1)):
        return tail if remainder else Linear(whole)
    if whole:
        form = floor_term(tail, divisor, remainder)
        return form if remainder else add(form, Linear(whole))
    if not remainder and len(rest) == 1 and is_zero(inner.const):
        [(term, coefficient)] = rest.items()
        if isinstance(term, Floor) and not term.remainder and is_one(coefficient):
            return floor_term(term.inner, term.divisor * divisor, False)
    return Linear({Floor(inner, divisor, remainder): 1})


def extremes(form: Linear) -> tuple[Extent, Extent]:
    """Smallest and largest value over all loops."""
    low = high = form.const
    for term, coefficient in form.terms.items():
        first: Extent
        last: Extent
        if isinstance(term, Loop):
            first, last = 0, term.extent - 1
        else:
            low_in, high_in = extremes(term.inner)
            first, last = low_in // term.divisor, high_in // term.divisor
            if term.remainder:
                inside = same(first, last)
                first = choose(inside, low_in - first * term.divisor, 0)
                last = choose(inside, high_in - last * term.divisor, term.divisor - 1)
        if negative(coefficient):
            first, last = last, first
        low, high = low + coefficient * first, high + coefficient * last
    return low, high


def substitute(form: Linear, values: Mapping[Loop, Linear]) -> Linear:
    """The form with loops replaced, inside floor terms too."""
    result = constant(form.const)
    for term, coefficient in form.terms.items():
        if isinstance(term, Loop):
            value = values[term] if term in values else Linear({term: 1})
        else:
            value = floor_term(substitute(term.inner, values), term.divisor, term.remainder)
        result = add(result, value, coefficient)
    return _joined_digits(result)


def _joined_digits(form: Linear) -> Linear:
    """The form with neighbouring digits of one number as one term: `d * (x // d % m) + x % d` is
    `x % (d * m)`, and `d * (x // d) + x % d` is `x`. Their ranges depend on each other, which sums of terms
    overlook."""
    floors = [(t, c) for t, c in form.terms.items() if isinstance(t, Floor)]
    for low, coefficient in floors:
        if not low.remainder:
            continue
        for high, weight in floors:
            if high is low or not equal(weight, coefficient * low.divisor):
                continue
            inner, divisor, modulus = _digit(high)
            if not equal(divisor, low.divisor) or not same_form(inner, low.inner):
                continue
            rest = Linear({t: c for t, c in form.terms.items() if t is not low and t is not high}, form.const)
            whole = low.inner
            if modulus is not None:
                whole = floor_term(whole, low.divisor * modulus, True)
            return _joined_digits(add(rest, whole, coefficient))
    return form


def _digit(floor: Floor) -> tuple[Linear, Extent, Extent | None]:
    """x, d and m of a digit `x // d % m`, which may be written `x % (d * m) // d`; m is None for `x // d`.
    Of another remainder, x, 0 and None."""
    inner, divisor = floor.inner, floor.divisor
    if len(inner.terms) == 1 and is_zero(inner.const):
        [(term, coefficient)] = inner.terms.items()
        if isinstance(term, Floor) and is_one(coefficient) and term.remainder is not floor.remainder:
            if floor.remainder:
                return term.inner, term.divisor, divisor
            if is_multiple(term.divisor, divisor):
                return term.inner, divisor, term.divisor // divisor
    return inner, 0 if floor.remainder else divisor, None


def same_form(a: Linear, b: Linear) -> bool:
    """Whether two forms are equal, term by term."""
    gap = add(a, b, -1)
    if isinstance(gap.const, int) and gap.const == 0 and not gap.terms:
        return True
    floors_a = [(t, c) for t, c in a.terms.items() if isinstance(t, Floor)]
    floors_b = [(t, c) for t, c in b.terms.items() if isinstance(t, Floor)]
    rest_a = Linear({t: c for t, c in a.terms.items() if isinstance(t, Loop)}, a.const)
    rest_b = Linear({t: c for t, c in b.terms.items() if isinstance(t, Loop)}, b.const)
    if not floors_a or len(floors_a) != len(floors_b) or not same_form(rest_a, rest_b):
        return False
    return all(
        equal(x, y)
        and f.remainder == g.remainder
        and equal(f.divisor, g.divisor)
        and same_form(f.inner, g.inner)
        for (f, x), (g, y) in zip(floors_a, floors_b, strict=True)
    )


def parse_index(expr: Expr, lookup: Callable[[Var], Linear]) -> Linear:
    """The form of an index expression; `lookup` gives the form of a variable.

    Raises NotAffine for anything but sums, differences, constant multiples, floor divisions and
    remainders by a constant."""
    match expr:
        case tirx.IntImm():
            return constant(int(expr.value))
        case Var():
            return lookup(expr)
        case tirx.Add():
            return _joined_digits(add(parse_index(expr.a, lookup), parse_index(expr.b, lookup)))
        case tirx.Sub():
            return add(parse_index(expr.a, lookup), parse_index(expr.b, lookup), -1)
        case tirx.Cast():
            return parse_index(expr.value, lookup)
        case tirx.Mul():
            a, b = parse_index(expr.a, lookup), parse_index(expr.b, lookup)
            if not b.terms:
                return scale(a, b.const)
            if not a.terms:
                return scale(b, a.const)
        case tirx.FloorDiv() | tirx.FloorMod():
            a, b = parse_index(expr.a, lookup), parse_index(expr.b, lookup)
            if not b.terms and isinstance(b.const, int) and b.const > 0:
                return floor_term(a, b.const, isinstance(expr, tirx.FloorMod))
    raise NotAffine(str(expr))
