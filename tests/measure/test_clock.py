"""The clock accounts for every second once."""

from __future__ import annotations

import time

import pytest

from pruner.measure.clock import STAGES, Clock, stage


def test_nested_stages_add_up_to_the_wall_time():
    with stage("fit"):
        pass  # no clock is running
    clock = Clock()
    start = time.perf_counter()
    with clock.running():
        with stage("build"):
            time.sleep(0.02)
            with stage("run"):
                time.sleep(0.05)
            time.sleep(0.02)
        time.sleep(0.03)
        with pytest.raises(ZeroDivisionError), stage("fit"):
            raise ZeroDivisionError
    seconds = clock.seconds()
    wall = time.perf_counter() - start
    assert set(seconds) == {*STAGES, "total"}
    assert seconds["total"] == pytest.approx(wall, abs=0.01)
    assert sum(seconds[name] for name in STAGES) == pytest.approx(seconds["total"])
    assert seconds["build"] >= 0.04
    assert seconds["run"] >= 0.05
    assert seconds["build"] < seconds["total"] - seconds["run"]
    assert seconds["other"] >= 0.03
    assert seconds["draft"] == 0.0


def test_a_clock_may_start_at_an_earlier_reading():
    clock = Clock(time.perf_counter() - 5.0)
    with clock.running(), stage("build"):
        time.sleep(0.02)
    seconds = clock.seconds()
    assert 5.0 < seconds["total"] < 6.0
    assert 0.02 <= seconds["build"] < 1.0
    assert seconds["other"] == pytest.approx(seconds["total"] - seconds["build"])
