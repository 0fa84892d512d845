"""Index forms against their values, one by one."""

from itertools import product

import pytest

from pruner.search.nest import Linear, Loop
from pruner.search.symbolic.affine import add, constant, floor_term, substitute


def number(outer: Loop, inner: Loop) -> Linear:
    """A split loop: `16 * outer + inner`."""
    return Linear({outer: 16, inner: 1})


@pytest.mark.parametrize("remainder_first", [False, True])
@pytest.mark.parametrize("top", [False, True])
def test_digits_of_one_number_become_one_term_of_equal_value(remainder_first: bool, top: bool) -> None:
    outer, inner, x = Loop(49), Loop(16), Loop(784)
    low = floor_term(Linear({x: 1}), 7, True)
    high = floor_term(Linear({x: 1}), 7, False)
    if not top:
        middle = floor_term(floor_term(Linear({x: 1}), 28, True), 7, False)
        high = middle if remainder_first else floor_term(high, 4, True)
    form = substitute(add(add(constant(3), high, 14), low, 2), {x: number(outer, inner)})
    assert len(form.terms) == (2 if top else 1)  # the number itself, or one remainder of it
    for i, j in product(range(49), range(16)):
        value = 16 * i + j
        digit = value // 7 if top else value // 7 % 4
        assert form.at({outer: i, inner: j}) == 3 + 14 * digit + 2 * (value % 7)
    values = [form.at({outer: 0, inner: j}) for j in range(16)]
    assert form.range([inner]) == (min(values), max(values))


def test_digits_of_different_numbers_stay_apart() -> None:
    x, y = Loop(784), Loop(784)
    high, low = floor_term(Linear({x: 1}), 7, False), floor_term(Linear({y: 1}), 7, True)
    form = substitute(add(low, high, 7), {})
    assert len(form.terms) == 2
    assert form.at({x: 20, y: 20}) == 20
    assert form.at({x: 20, y: 1}) == 15
