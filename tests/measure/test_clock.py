"""The clock accounts for every second once."""

from __future__ import annotations

import time

import pytest

from pruner.measure.clock import STAGES, Clock, billed, charge, stage


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


def test_a_charge_counts_as_time_that_has_passed():
    charge("fit", 1.0)  # no clock is running
    clock = Clock()
    with clock.running(), stage("draft"):
        charge("features", 7.0)
        charge("features", 2.0)
    seconds = clock.seconds()
    assert seconds["features"] == pytest.approx(9.0)
    assert 9.0 < clock.elapsed() < 10.0
    assert seconds["draft"] < 1.0
    assert sum(seconds[name] for name in STAGES) == pytest.approx(seconds["total"])


@pytest.mark.parametrize("active", [True, False])
def test_what_a_block_bills_is_told_by_stage(active):
    clock = Clock()

    def work():
        with stage("features"):
            with billed() as spent:
                time.sleep(0.02)
                with stage("materialise"):
                    time.sleep(0.04)
            time.sleep(0.1)
        return spent

    if active:
        with clock.running():
            with stage("build"):
                time.sleep(0.05)
            spent = work()
        assert 0.02 <= spent["features"] < 0.1
        assert clock.seconds()["features"] >= 0.12
    else:
        spent = work()
    assert 0.04 <= spent["materialise"] < 0.1
    assert spent["build"] == 0.0
    assert "total" not in spent


def test_paused_time_has_not_passed():
    clock = Clock()
    start = time.perf_counter()
    with clock.running(), stage("draft"):
        time.sleep(0.02)
        with clock.paused():
            time.sleep(0.2)
        time.sleep(0.02)
    seconds = clock.seconds()
    assert 0.04 <= seconds["draft"] <= time.perf_counter() - start - 0.2
    assert seconds["total"] <= time.perf_counter() - start - 0.2
    assert sum(seconds[name] for name in STAGES) == pytest.approx(seconds["total"])
