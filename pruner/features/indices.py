"""Index expressions once a schedule's loops are split and renamed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pruner.search.nest import Extent, Floor, Linear, Loop

# More than any index.
_ENDLESS = 1 << 40


def settled(form: Linear, fetched: Loop) -> Linear:
    """The form without what its schedule simplified away, row by row, since it knew the loop's range: terms
    that the loop leaves at zero, and remainders that its values stay below. The loop's turns will overshoot
    that range."""
    terms: dict[Loop | Floor, Extent] = {}
    for term, coefficient in form.terms.items():
        if isinstance(term, Loop):
            moves = np.not_equal(term.extent, 1)
            terms[term] = coefficient * moves if term is fetched else coefficient
            continue
        if term.inner.loops() != {fetched}:
            terms[term] = coefficient
            continue
        divisor = term.divisor
        if term.remainder:
            _, last = term.inner.range((fetched,))
            divisor = np.where(np.less(last, divisor), _ENDLESS, divisor)
        low, high = term.range((fetched,))
        kept = Floor(settled(term.inner, fetched), divisor, term.remainder)
        terms[kept] = coefficient * np.not_equal(low, high)
    return Linear(terms, form.const)


def substituted(form: Linear, values: Mapping[Loop, Linear]) -> Linear:
    """The form with loops replaced, inside floor terms too; nothing is simplified."""
    if not values:
        return form
    terms: dict[Loop | Floor, Extent] = {}
    const: Extent = form.const
    for term, coefficient in form.terms.items():
        if isinstance(term, Floor):
            inner = substituted(term.inner, values)
            terms[Floor(inner, term.divisor, term.remainder)] = coefficient
            continue
        value = values.get(term)
        if value is None:
            terms[term] = terms.get(term, 0) + coefficient
            continue
        const = const + coefficient * value.const
        for part, step in value.terms.items():
            terms[part] = terms.get(part, 0) + coefficient * step
    return Linear(terms, const)
