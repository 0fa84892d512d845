"""Measuring by looking up what was recorded."""

import math
from pathlib import Path

import numpy as np
import pytest

from pruner.errors import ConfigError
from pruner.measure.clock import Clock
from pruner.measure.measurement import Measurement
from pruner.measure.replay import ReplayMeasurer
from pruner.records.ansor import read_ansor
from pruner.records.dataset import Dataset, RecordedTask, object_column
from pruner.records.read import read
from pruner.records.recorded_pool import RecordedPool
from pruner.search.space import Space
from pruner.testing import MeasurerSuite, tiny
from tests.records.ansor.ansor_util import TILED, line

EXCERPT = Path(__file__).parents[1] / "data" / "metaschedule"


def charged(measure, candidates):
    """The measurements, and the seconds by stage that they cost the clock, computing aside."""
    with Clock().running() as clock:
        measurements = measure(candidates)
        seconds = clock.seconds()
    return measurements, seconds


@pytest.fixture(scope="module")
def pool():
    return RecordedPool.load(EXCERPT, "0")


def test_what_was_recorded_comes_back_to_the_digit(pool):
    dataset = read(EXCERPT).dataset.of("0")
    measurer = ReplayMeasurer(pool=pool, trial_s=3.25)
    recorded = {
        row.key: (latency, spread, failure)
        for row, latency, spread, failure in reversed(
            list(
                zip(
                    dataset.population(pool.space),
                    dataset.latency_s.tolist(),
                    dataset.spread_s.tolist(),
                    dataset.failure.tolist(),
                    strict=True,
                )
            )
        )
    }
    measurements, seconds = charged(measurer.measure, list(pool))
    assert len(recorded) == len(measurements) == len(pool)
    assert [m.candidate.key for m in measurements] == [row.key for row in pool]
    failures = 0
    for m in measurements:
        latency, spread, failure = recorded[m.candidate.key]
        failures += m.failure is not None
        assert m.failure == (failure or None)
        assert (m.latency_s, m.spread_s) == (
            (None, None) if failure else (latency, None if math.isnan(spread) else spread)
        )
        assert (m.build_s, m.run_s, m.compared) == (0.0, 3.25, False)
        assert m.message == (f"recorded as a {failure} failure" if failure else "")
    assert 0 < failures < len(pool)
    assert seconds["run"] == 3.25 * len(pool)  # a failure cost a trial, too
    assert seconds["build"] == 0.0
    assert seconds["total"] == pytest.approx(seconds["run"], abs=5.0)


def test_the_clock_gets_the_seconds_that_were_kept(tmp_path):
    log = tmp_path / "product.json"
    other = [list(step) for step in TILED]
    other[-1] = ["PR", 4, 0, "auto_unroll_max_step$512"]
    log.write_text(f"{line(TILED, seconds=[2e-5, 4e-5])}\n{line(other, error=6, seconds=[1e10])}\n")
    dataset = read_ansor(log).dataset
    pool = RecordedPool(dataset)
    kept = float(dataset.cost_s.sum())
    assert (len(pool), kept) == (2, 5.0)
    measurements, seconds = charged(ReplayMeasurer(pool=pool, trial_s=100.0).measure, list(pool))
    assert sorted((m.latency_s or 0.0, m.failure or "", m.run_s) for m in measurements) == [
        (0.0, "timeout", 2.5),
        (dataset.latency_s[0], "", 2.5),
    ]
    assert seconds["run"] == kept


def test_finalists_are_told_again_at_no_cost(pool):
    measurer = ReplayMeasurer(pool=pool)
    candidates = list(pool[:3])
    confirmed, seconds = charged(measurer.confirm, candidates)
    measured, _ = charged(measurer.measure, candidates)
    assert confirmed == measured
    assert seconds["run"] == 0
    assert measurer.baseline() is None


def test_an_unrecorded_candidate_is_refused(pool):
    space = Space.of(pool.task)
    drawn = list(space.sample_legal(3, np.random.default_rng(0)))
    with pytest.raises(ConfigError, match="replay knows only recorded programs"):
        ReplayMeasurer(pool=pool).measure(drawn)


@pytest.mark.parametrize("trial_s", [0, -1.0, math.inf, math.nan, "2", True, None])
def test_a_trial_takes_time(pool, trial_s):
    with pytest.raises(ConfigError, match=r"trial_s=.*above 0"):
        ReplayMeasurer(pool=pool, trial_s=trial_s)


def test_what_it_is_made_from_is_checked(pool):
    with pytest.raises(ConfigError, match="data=PATH"):
        ReplayMeasurer(pool=None)
    with pytest.raises(ConfigError, match=r"measure.recorded=zen5.*cuda sm_80"):
        ReplayMeasurer(pool=pool, recorded="zen5")
    with pytest.raises(ConfigError, match=r"measure\.recorded=80 is not accepted: give part of"):
        ReplayMeasurer(pool=pool, recorded=80)


class TestReplay(MeasurerSuite):
    @pytest.fixture
    def make(self, device):
        rows = tiny.programs(tiny.space(device, tiny.UNSEEN), 3)
        return lambda task, threads: ReplayMeasurer(pool=RecordedPool(recorded(rows, device)))

    def test_a_failure_is_a_measurement(self, device):
        rows = tiny.programs(tiny.space(device, tiny.UNSEEN), 3)
        measurer = ReplayMeasurer(pool=RecordedPool(recorded(rows, device, failed=1)))
        done: list[Measurement] = measurer.measure(list(rows))
        for measurement in done:
            self.check(measurer, measurement)
        assert [one.failure for one in done] == [None, "run", None]


def recorded(rows, device, failed=None):
    """Rows with made-up latencies, of which one may have failed."""
    n = len(rows)
    task = rows.space.task
    signatures = tuple(sketch.signature for sketch in rows.space.sketches)
    lost = np.arange(n) == (-1 if failed is None else failed)
    return Dataset(
        (RecordedTask(task.name, task.mod, task.target, 1.0, signatures),),
        task=np.zeros(n, dtype=np.int64),
        sketch_ids=rows.sketch_ids,
        decisions=rows.decisions,
        traces=object_column([None] * n),
        latency_s=np.where(lost, np.nan, tiny.latencies(device, rows)),
        spread_s=np.full(n, np.nan),
        failure=np.where(lost, "run", ""),
        cost_s=np.full(n, np.nan),
        order=np.arange(n),
        device=np.full(n, "here"),
    )
