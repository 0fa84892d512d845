import numpy as np
import pytest

from pruner.analyzer.penalties import CHOICES, PENALTIES, fit, kept_penalties, utilisation
from pruner.errors import ConfigError


def test_six_blocks_on_four_units_give_three_quarters() -> None:
    n = np.array([6.0, 4.0, 1.0, 5.0, 8.0])
    assert utilisation(n, 4).tolist() == [0.75, 1.0, 0.25, 0.625, 1.0]


def test_a_memory_is_full_at_its_capacity() -> None:
    assert fit(100, np.array([50.0, 100.0, 400.0, 0.0])).tolist() == [1.0, 1.0, 0.25, 1.0]


def test_every_choice_removes_what_its_name_says() -> None:
    assert kept_penalties("all") == set(PENALTIES)
    assert kept_penalties("none") == set()
    assert kept_penalties("no_compute") == {"l0_memory", "l1_memory", "l2_memory"}
    assert kept_penalties("no_memory") == {"l0_compute", "l1_compute", "l2_compute"}
    for name in PENALTIES:
        assert set(PENALTIES) - kept_penalties(f"no_{name}") == {name}


def test_an_unknown_choice_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError) as error:
        kept_penalties("no_luck")
    assert all(choice in str(error.value) for choice in (*CHOICES, "no_luck"))
