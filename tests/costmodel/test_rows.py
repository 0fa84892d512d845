"""Rows against the batch they are of, and against sums candidate by candidate."""

import numpy as np
import pytest
import torch

from pruner.costmodel.rows import Rows
from pruner.errors import ConfigError
from tests.costmodel.neural_util import features

CPU = torch.device("cpu")


def test_taking_and_summing_are_those_of_the_batch():
    batch = features(30)[0]["statement"]
    offsets = batch.offsets.copy()
    offsets[8] = offsets[7]  # one without rows, whose rows the next one has
    batch = type(batch)(batch.values, offsets, batch.name, batch.version)
    chosen = np.array([7, 3, 3, 29, 0, 8])
    expected = batch.take(chosen)
    found = Rows.of(batch, CPU).take(torch.from_numpy(chosen))
    np.testing.assert_array_equal(found.values.numpy(), expected.values)
    np.testing.assert_array_equal(found.offsets.numpy(), expected.offsets)
    ends = expected.offsets
    sums = [expected.values[ends[i] : ends[i + 1]].sum(axis=0) for i in range(len(chosen))]
    np.testing.assert_allclose(found.summed(found.values).numpy(), sums, rtol=1e-5, atol=1e-5)


def test_rows_of_fixed_number_are_sequences():
    batch = features(5)[0]["dataflow"]
    rows = Rows.of(batch, CPU)
    np.testing.assert_array_equal(rows.sequences(rows.values).numpy(), batch.values.reshape(5, 10, 23))
    none = Rows.of(batch.take(np.zeros(0, dtype=np.int64)), CPU)
    assert none.sequences(none.values).shape == (0, 0, 23)


def test_sequences_of_different_lengths_are_refused_and_not_mixed_up():
    batch = features(5)[0]["dataflow"]
    offsets = batch.offsets.copy()
    offsets[1] -= 1
    rows = Rows.of(type(batch)(batch.values, offsets, batch.name, batch.version), CPU)
    with pytest.raises(ConfigError, match="from 9 to 11 rows"):
        rows.sequences(rows.values)
