"""The data programs are called with."""

from __future__ import annotations

import numpy as np
import pytest

from pruner.measure.inputs import Inputs, random_array
from pruner.measure.program import Argument


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("float32", -1, 1),
        ("float16", -1, 1),
        ("bfloat16", -1, 1),
        ("int8", -128, 127),
        ("uint8", 0, 255),
        ("int32", 0, 7),
        ("int64", 0, 7),
        ("bool", 0, 1),
    ],
)
def test_range_and_determinism(dtype, low, high):
    values = random_array(Argument((2000,), dtype), 3)
    again = random_array(Argument((2000,), dtype), 3)
    other = random_array(Argument((2000,), dtype), 4)
    numbers = values.astype(np.float64)
    assert (values == again).all()
    assert (values != other).any()
    assert low <= numbers.min() < low + 0.1 * (high - low)
    assert high - 0.1 * (high - low) < numbers.max() <= high


def test_reset_restores_what_a_program_overwrote():
    arguments = (Argument((4, 5), "float32"), Argument(None, "int32"), Argument((0, 3), "float32"))
    inputs = Inputs(arguments)
    array, scalar, empty = inputs.call_arguments(arguments)
    before = array.numpy().copy()
    assert scalar == 1
    assert empty.numpy().shape == (0, 3)
    array.copyfrom(np.zeros((4, 5), np.float32))
    inputs.reset(arguments, only=[2])
    assert (array.numpy() == 0).all()
    inputs.reset(arguments)
    assert (array.numpy() == before).all()
    inputs.reset(arguments, positive=True)
    assert array.numpy().min() >= 0.1


def test_arrays_are_made_once_per_layout():
    inputs = Inputs([])
    first = inputs.call_arguments([Argument((4, 4), "float32")])[0]
    again = inputs.call_arguments([Argument((4, 4), "float32")])[0]
    other = inputs.call_arguments([Argument((2, 2, 4), "float32")])[0]
    assert first.same_as(again)
    assert not first.same_as(other)


def test_integers_that_may_be_indices_stay_inside_the_shortest_axis():
    table, index = Argument((1, 3, 40), "float32"), Argument((500,), "int32")
    array = Inputs([table, index]).call_arguments([table, index])[1].numpy()
    assert set(array.tolist()) == {0, 1, 2}
