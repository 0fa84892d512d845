"""Index expressions by hand: values, ranges and footprints against enumeration over all rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pruner.search.nest import Access, Buffer, Extent, Floor, Linear, Loop, Statement, product


def rows(*values: int) -> Extent:
    return np.array(values, dtype=np.int64)


def enumerated(form: Linear, relaxed: list[Loop], row: int) -> tuple[int, int]:
    def at(extent: Extent) -> int:
        return int(extent) if isinstance(extent, int) else int(extent[row])

    def value(inner: Linear, point: dict[Loop, int]) -> int:
        total = at(inner.const)
        for term, coefficient in inner.terms.items():
            if isinstance(term, Loop):
                total += at(coefficient) * point.get(term, 0)
            else:
                part = value(term.inner, point)
                d = at(term.divisor)
                total += at(coefficient) * (part % d if term.remainder else part // d)
        return total

    points = itertools.product(*(range(at(loop.extent)) for loop in relaxed))
    found = [value(form, dict(zip(relaxed, point, strict=True))) for point in points]
    return min(found), max(found)


I, J = Loop(rows(4, 6, 1)), Loop(5)
FORMS = {
    "affine": Linear({I: rows(5, 5, 9), J: 1}, 3),
    "negative": Linear({I: -2, J: rows(-3, -1, -1)}, 20),
    "quotient": Linear({Floor(Linear({I: 5, J: 1}), 8): 1}),
    "scaled_quotient": Linear({Floor(Linear({I: 1, J: 4}, 2), rows(3, 5, 7)): -4, J: 1}),
    "remainder": Linear({Floor(Linear({I: 5, J: 1}), 8, True): 1}),
    "remainder_in_steps": Linear({Floor(Linear({I: 2, J: 4}, 1), 8, True): 3}),
}


@pytest.mark.parametrize("name", FORMS)
def test_ranges_equal_enumeration(name: str) -> None:
    form = FORMS[name]
    cases = [[I], [I, J], []]
    if name in ("quotient", "scaled_quotient", "affine", "negative"):
        cases.append([J])
    for relaxed in cases:
        if name == "scaled_quotient" and J in relaxed:
            continue  # its two terms move together, which no schedule makes
        low, high = form.range(relaxed)
        for row in range(3):
            expected = enumerated(form, relaxed, row)
            assert (np.broadcast_to(low, 3)[row], np.broadcast_to(high, 3)[row]) == expected, (relaxed, row)


def test_footprint_is_clipped_to_the_tensor_and_keeps_ints() -> None:
    buffer = Buffer("a", (8, 100), "float32", 4)
    access = Access(buffer, (Linear({I: 2}), Linear({J: 3}, 7)))
    assert access.widths([J]) == (1, 13)
    assert access.footprint([J]) == 13
    assert np.asarray(access.widths([I])[0]).tolist() == [7, 8, 1]
    assert np.asarray(access.footprint([I, J])).tolist() == [7 * 13, 8 * 13, 13]


def test_stride_is_row_major_and_looks_into_floors() -> None:
    buffer = Buffer("a", (8, rows(10, 20, 30)), "float32", 4)
    access = Access(buffer, (Linear({I: 2}), Linear({J: 3})))
    assert np.asarray(access.stride(I)).tolist() == [20, 40, 60]
    assert access.stride(J) == 3
    assert access.stride(Loop(3)) == 0
    split = Access(
        buffer, (Linear({Floor(Linear({I: 4}), 4): 1}), Linear({Floor(Linear({J: 1}), 4, True): 2}))
    )
    assert np.asarray(split.stride(I)).tolist() == [10, 20, 30]
    assert split.stride(J) == 2
    assert split.indexed_by(J)
    assert not split.indexed_by(Loop(3))


def test_products_of_ints_are_ints() -> None:
    assert product([2, 3, 4]) == 24
    assert isinstance(product([]), int)
    access = Access(Buffer("a", (4,), "float32", 4), (Linear({J: 1}),))
    statement = Statement("s", (I, J), frozenset(), (access,), (access,), {}, "float32")
    assert np.asarray(statement.instances).tolist() == [20, 30, 5]
