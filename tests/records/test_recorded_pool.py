"""A task's records as a pool to choose from."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from pruner.errors import ConfigError
from pruner.records.dataset import Dataset
from pruner.records.read import read
from pruner.records.recorded_pool import RecordedPool
from pruner.records.storage import DTYPES
from pruner.search.space import Space
from tests.records.records_util import made, untranslated

EXCERPT = Path(__file__).parents[1] / "data" / "metaschedule"


def altered(dataset, **columns):
    """With other values in some columns."""
    return Dataset(dataset.tasks, **{name: getattr(dataset, name) for name in DTYPES} | columns)


def described(pool):
    """Each program, without the numbers of sketches, and what is known of it."""
    columns = zip(pool.latency_s.tolist(), pool.failure.tolist(), pool.order.tolist(), strict=True)
    return [
        (json.dumps(row.decided.as_json(), default=lambda boxed: boxed.value), *map(str, known))
        for row, known in zip(pool, columns, strict=True)
    ]


def test_a_row_that_was_recorded_twice_is_as_it_was_first():
    twice = made(6)[np.array([0, 1, 2, 3, 4, 5, 0, 1, 2])]
    latency = np.array([3.0, math.nan, 5.0, 6.0, 7.0, 8.0, 4.0, 2.0, 1.0])
    failure = np.where(np.isnan(latency), "run", "")
    order = np.array([7, 1, 2, 3, 4, 5, 6, 0, 8])  # of row 0 and of row 1 the later line was first
    dataset = altered(twice, latency_s=latency, failure=failure, order=order)
    pool = RecordedPool(dataset)
    assert (len(pool), pool.repeated, pool.unusable) == (6, 3, 0)
    rows = dataset.population(Space.of(pool.task))
    first = {0: 4.0, 1: 2.0, 2: 5.0, 3: 6.0, 4: 7.0, 5: 8.0}
    for number, latency_s in first.items():
        assert pool.latency_s[pool.position(rows[number])] == latency_s
    assert (pool.failure == "").all()


def test_failures_are_kept_and_what_has_no_row_is_counted():
    pool = RecordedPool(untranslated(made(6), 3))
    assert (len(pool), pool.unusable) == (5, 1)
    assert sorted(pool.failure.tolist()) == ["", "", "", "", "run"]
    assert np.isnan(pool.latency_s).tolist() == (pool.failure != "").tolist()
    assert pool.machine == "cpu"


def test_the_order_of_recording_does_not_show():
    dataset = read(EXCERPT).dataset.of("0")
    pools = [RecordedPool(dataset)]
    for seed in range(2):
        shuffled = np.random.default_rng(seed).permutation(len(dataset))
        pools.append(RecordedPool(dataset[shuffled]))
    assert len(pools[0].space.sketches) > 1
    assert described(pools[0]) == described(pools[1]) == described(pools[2])
    assert pools[0].order.tolist() != sorted(pools[0].order.tolist())


def test_a_candidate_of_any_space_of_the_task_is_found():
    dataset = made(6)
    pool = RecordedPool(dataset)
    space = Space.of(pool.task)
    for number, row in enumerate(dataset.population(space)):
        position = pool.position(row)
        assert pool.latency_s[position] == dataset.latency_s[number] or number == 1
        assert pool.position(pool[position]) == position
    (other,) = space.sample_legal(1, np.random.default_rng(99))
    assert pool.position(other) is None


def test_nothing_changes_a_pool():
    pool = RecordedPool(made(6))
    for column in (pool.decisions, pool.sketch_ids, pool.latency_s, pool.cost_s, pool.order):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_records_of_several_machines_are_refused_unless_one_is_chosen(tmp_path):
    one, other = made(6, device="zen5"), made(6, device="zen4", seed=1)
    path = tmp_path / "both.npz"
    Dataset.concat([one, other]).save(path)
    with pytest.raises(ConfigError, match=r"measure.recorded=TEXT.*zen4; zen5"):
        RecordedPool.load(path, "GMM/0")
    pool = RecordedPool.load(path, "GMM/0", recorded="en5")
    assert pool.machine == "zen5"
    assert sorted(pool.latency_s[pool.failure == ""]) == sorted(one.latency_s[one.failure == ""])
    with pytest.raises(ConfigError, match=r"measure.recorded=m1 is in no.*zen4; zen5"):
        RecordedPool.load(path, "GMM/0", recorded="m1")
    with pytest.raises(ConfigError, match=r"workload=C2D/0 names no recorded task.*GMM/0"):
        RecordedPool.load(path, "C2D/0", recorded="zen5")


def test_a_task_that_is_not_there_says_what_was_skipped(tmp_path):
    assert len(RecordedPool.load(EXCERPT, 0)) == len(RecordedPool.load(EXCERPT, "0"))
    workloads = "database_workload.json.gz"
    (tmp_path / workloads).write_bytes((EXCERPT / workloads).read_bytes())
    (tmp_path / "database_tuning_record.json").write_text("garbage\n" * 5)
    with pytest.raises(ConfigError, match=r"no task 0; it has none\. Of 5 records, 5 skipped"):
        RecordedPool.load(tmp_path, "0")


def test_records_without_a_row_make_no_pool():
    with pytest.raises(ConfigError, match="none of the 1 records of GMM/0 can be replayed"):
        RecordedPool(untranslated(made(1), 0))
    with pytest.raises(ConfigError, match="none of the 0 records"):
        RecordedPool(made(3)[:0])
