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
