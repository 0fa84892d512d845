"""Polynomials over decision columns against the same arithmetic on numbers."""

from __future__ import annotations

import numpy as np

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
        (s.smaller(x, y + 1), np.minimum(p, q + 1)),
        (s.larger(x, z), np.maximum(p, r)),
        (s.larger(x + 2, x), p + 2),
        (s.divisor(x * y, 6), np.gcd(p * q, 6)),
        (s.choose(s.at_most(x, y), z, 5), np.where(p <= q, r, 5)),
        (s.choose(s.both(s.same(x, y), s.at_most(z, 4)), 1, x), np.where((p == q) & (r <= 4), 1, p)),
        (s.choose(s.either(s.same(x, 3), s.same(y, 3)), x, 0), np.where((p == 3) | (q == 3), p, 0)),
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
    assert (s.smaller(2, 3), s.larger(2, 3), s.same(x, x), s.at_most(x, x - 1)) == (2, 3, 1, 0)
    assert s.negative(-2 * x)
    assert not s.negative(x)
    assert s.negative(-1)
