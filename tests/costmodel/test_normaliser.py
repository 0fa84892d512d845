"""Normalisers against values worked out by hand."""

import numpy as np
import pytest

from pruner.costmodel.normaliser import Normaliser, check_form
from pruner.errors import ConfigError
from pruner.features.batch import FeatureBatch


def batch(columns):
    values = np.array(columns, dtype=np.float32).T
    return FeatureBatch(values, np.arange(len(values) + 1), "made_up", 1)


# Mean 3 and deviation 2; a column that is steady; one row in a hundred that is not 0.
SPREAD, STEADY, RARE = [1.0, 5.0] * 50, [7.0] * 100, [0.0] * 99 + [1.0]


def test_standard_takes_the_mean_away_divides_by_the_deviation_and_bounds_what_lies_far_out():
    normaliser = Normaliser.fitted("standard", batch([SPREAD, STEADY, RARE]))
    found = normaliser(batch([[1.0, 5.0, 100.0, -100.0], [7.0, 7.0, 8.0, 7.0], [0.0, 1.0, 0.0, 0.0]])).values
    np.testing.assert_allclose(found[:, 0], [-1, 1, 4, -4], rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], [0, 0, 1, 0], atol=1e-6)
    # (0 - 0.01) / sqrt(0.01 * 0.99); the one that is not 0 would lie at 9.9 deviations.
    np.testing.assert_allclose(found[:, 2], [-0.100504, 4, -0.100504, -0.100504], rtol=1e-5)


def test_maximum_divides_by_the_largest_value_and_bounds_nothing():
    normaliser = Normaliser.fitted("maximum", batch([SPREAD, STEADY, [-1.0] * 100]))
    found = normaliser(batch([[1.0, 50.0], [7.0, 0.0], [-1.0, 3.0]])).values
    np.testing.assert_allclose(found, [[0.2, 1.0, -1.0], [10.0, 0.0, 3.0]], rtol=1e-6)


@pytest.mark.parametrize("form", ["standard", "maximum"])
def test_nothing_to_see_changes_nothing(form):
    normaliser = Normaliser.fitted(form, batch([[], []]))
    np.testing.assert_allclose(normaliser(batch([[0.5, -2.0], [1.0, 3.0]])).values, [[0.5, 1.0], [-2.0, 3.0]])


def test_another_form_is_refused():
    with pytest.raises(ConfigError, match=r"normaliser=mean is not accepted: give standard or maximum"):
        check_form("mean")
