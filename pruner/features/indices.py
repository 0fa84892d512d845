"""Index expressions once a schedule's loops are split and renamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pruner.search.nest import Extent, Floor, Linear, Loop


def substituted(form: Linear, values: Mapping[Loop, Linear]) -> Linear:
    """The form with loops replaced, inside floor terms too. Whole blocks leave a division and drop out of a
    remainder in the rows where they are whole."""
    if not values:
        return form
    terms: dict[Loop | Floor, Extent] = {}
    const: Extent = form.const
    for term, coefficient in form.terms.items():
        if isinstance(term, Floor):
            value = _reduced(substituted(term.inner, values), term.divisor, term.remainder)
        else:
            value = values.get(term, Linear({term: 1}))
        const = const + coefficient * value.const
        for part, step in value.terms.items():
            terms[part] = _extent(terms.get(part, 0) + coefficient * step)
    return Linear(terms, const)


def _reduced(inner: Linear, divisor: Extent, remainder: bool) -> Linear:
    """`inner // divisor` or `inner % divisor`; a digit is `x // d % m`, however it was written."""
    digit = _only_term(inner)
    if isinstance(digit, Floor) and not (remainder and not digit.remainder):
        fits = np.all(np.equal(np.remainder(digit.divisor, divisor), 0))
        if not digit.remainder:
            return _reduced(digit.inner, digit.divisor * divisor, False)
        if fits and remainder:
            return _reduced(digit.inner, divisor, True)
        if fits:
            quotient = _reduced(digit.inner, divisor, False)
            return _reduced(quotient, _extent(np.floor_divide(digit.divisor, divisor)), True)
    whole: dict[Loop | Floor, Extent] = {}
    rest: dict[Loop | Floor, Extent] = {}
    for term, coefficient in inner.terms.items():
        blocks, left = np.divmod(coefficient, divisor)
        if np.any(left):
            rest[term] = _extent(np.where(left == 0, 0, coefficient))
        if not remainder and np.any((left == 0) & (blocks != 0)):
            whole[term] = _extent(np.where(left == 0, blocks, 0))
    if rest or np.any(inner.const):
        whole[Floor(Linear(rest, inner.const), divisor, remainder)] = 1
    return Linear(whole)


def _only_term(form: Linear) -> Loop | Floor | None:
    """The term that the form is equal to, if it is."""
    if len(form.terms) != 1 or np.any(form.const):
        return None
    [(term, coefficient)] = form.terms.items()
    return term if np.all(np.equal(coefficient, 1)) else None


def _extent(value: Any) -> Extent:
    """An array by row, or else an int."""
    return value if np.ndim(value) else int(value)
