"""Polynomials over decision columns against the same arithmetic on numbers."""

from __future__ import annotations

import numpy as np

from pruner.search.symbolic import comparison as of
from pruner.search.symbolic import polynomial as s
from pruner.search.symbolic.tape import Tape


def test_a_whole_tile_is_its_extent_again() -> None:
    a, b, c = s.Symbols().tile(0, 3, 30)
    assert a * (b * c) == 30
    assert (a - 1) * b * c + (b - 1) * c + (c - 1) == 29
    assert s.equal(a * b, b * a)
    assert not s.equal(a * b, b * c)
    assert a * b - b * a == 0
    assert s.Symbols().tile(0, 4, 1) == [1, 1, 1, 1]


def test_tape_equals_arithmetic_on_numbers() -> None:
    rng = np.random.default_rng(0)
    table = s.Symbols()
    x, y, z = (table.column(i) for i in range(3))
    columns = rng.integers(1, 9, size=(3, 200))
    p, q, r = columns
    pairs = [
        (x * y - 3 * z + 2, p * q - 3 * r + 2),
        (-x, -p),
        ((x + y) * (x - z) * 2, (p + q) * (p - r) * 2),
        ((x * 4 + y) // 3, (p * 4 + q) // 3),
        ((6 * x + 12) // 3, 2 * p + 4),
        ((x * 7 + 5) % 3, (p * 7 + 5) % 3),
        ((6 * x + 5) % 3, np.full(200, 2)),
        (7 // x, 7 // p),
        (of.smaller(x, y + 1), np.minimum(p, q + 1)),
        (of.larger(x, z), np.maximum(p, r)),
        (of.larger(x + 2, x), p + 2),
        (of.divisor(x * y, 6), np.gcd(p * q, 6)),
        (of.choose(of.at_most(x, y), z, 5), np.where(p <= q, r, 5)),
        (of.choose(of.both(of.same(x, y), of.at_most(z, 4)), 1, x), np.where((p == q) & (r <= 4), 1, p)),
        (of.choose(of.either(of.same(x, 3), of.same(y, 3)), x, 0), np.where((p == 3) | (q == 3), p, 0)),
        (table.lookup(0, tuple(range(0, 90, 10))), p * 10),
        (17, np.full(200, 17)),
    ]
    tape = Tape()
    slots = [tape.slot(value) for value, _ in pairs]
    values = tape.run(columns)
    for (value, expected), slot in zip(pairs, slots, strict=True):
        assert np.array_equal(np.broadcast_to(values[slot], 200), expected), value


def test_constants_stay_numbers_and_signs_are_known() -> None:
    x = s.Symbols().column(0)
    assert (of.smaller(2, 3), of.larger(2, 3), of.same(x, x), of.at_most(x, x - 1)) == (2, 3, 1, 0)
    assert of.negative(-2 * x)
    assert not of.negative(x)
    assert of.negative(-1)


def test_what_divides_leaves_the_division() -> None:
    table = s.Symbols()
    a, b, c = table.tile(0, 3, 64)
    x, y = table.column(4), table.column(5)
    assert s.equal((6 * a * b) // (a * 2), 3 * b)
    assert s.equal((x * y - 1) // y, x - 1)
    assert s.equal((x * y - 1) % y, y - 1)
    assert ((x * y) % y, 0 // x, 0 % x, -1 // y) == (0, 0, 0, -1)
    assert s.equal((x * y + a) // y, x + a // y)
    assert s.equal(-1 % x, x - 1)
    whole = s.whole(a + b)
    assert s.equal((whole * x * c) // (whole * c), x)
    assert s.whole(a * b) is not None
    assert s.equal(s.whole(a * b), a * b)
    tape = Tape()
    slot = tape.slot(whole * x)
    columns = np.array([[2, 4], [1, 8], [32, 2], [0, 0], [3, 5], [1, 1]])
    assert tape.run(columns)[slot].tolist() == [9, 60]


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


D24 = (1, 2, 3, 4, 6, 8, 12, 24)
