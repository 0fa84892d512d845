"""Bounds and comparisons of polynomials against the same on numbers."""

from __future__ import annotations

import numpy as np

from pruner.search.symbolic import comparison as of
from pruner.search.symbolic import polynomial as s
from pruner.search.symbolic.tape import Tape

D24 = (1, 2, 3, 4, 6, 8, 12, 24)


def test_bounds_hold_in_every_row_and_decide_what_they_can() -> None:
    table = s.Symbols()
    a, b, c = table.tile(0, 3, 24)
    d = table.lookup(3, (5, 7, 9))
    values = [a * b, a * a, 3 * a - 2 * b + 1, d * c - 4, s.whole(a + c) * d, a * b + b * c]
    rows = np.array(
        [(i, j, 24 // i // j, k) for i in D24 for j in D24 if 24 % (i * j) == 0 for k in range(3)]
    )
    tape = Tape()
    slots = [tape.slot(value) for value in values]
    found = tape.run(rows.T)
    for value, slot in zip(values, slots, strict=True):
        low, high = of.bounds(value)
        assert low is not None
        assert high is not None
        assert low <= found[slot].min()
        assert found[slot].max() <= high
    assert of.bounds(a * b) == (1, 24)
    assert of.bounds(a * a) == (1, 576)
    assert s.equal(of.smaller(a * b, 24), a * b)
    assert s.equal(of.larger(2 * a + b, 3), 2 * a + b)
    assert (of.at_most(a * c, 24), of.at_most(30, d)) == (1, 0)
    assert of.bounds(table.column(9)) == (None, None)


def test_a_ceiling_is_a_limit_on_what_grows() -> None:
    table = s.Symbols()
    x, y = table.lookup(0, (1, 2, 4)), table.lookup(1, (3, 6))
    limit = of.at_most(x * y + 2 * s.whole(x + y), 20)
    assert [of.is_ceiling(part) for part in of.conjuncts(of.both(limit, of.at_most(5, x * y)))] == [
        True,
        False,
    ]
    assert not of.is_ceiling(of.at_most(x - y, 0))
    assert not of.is_ceiling(of.at_most(x // y + 30 * x, 50))
    assert of.conjuncts(1) == [1]
