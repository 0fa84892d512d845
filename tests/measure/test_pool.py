"""The pool: requests are answered in order whatever happens to the workers."""

from __future__ import annotations

import threading
import time

import psutil
import pytest
from tvm.ir import save_json

from pruner.errors import DeviceError
from pruner.measure import pool as pools
from pruner.measure.pool import Pool
from pruner.measure.process import WorkerSetup
from pruner.measure.timing import TimingRule


def setup_for(programs) -> WorkerSetup:
    return WorkerSetup(save_json(programs.copy), save_json(programs.target), 2, TimingRule())


def run(pool, requests, timeout_s):
    """The replies in order, each with its worker."""
    replies = {}
    pool.run(requests, timeout_s=timeout_s, told=lambda index, *reply: replies.update({index: reply}))
    return [replies[index] for index in range(len(requests))]


def test_killed_hung_and_raising_builds_leave_the_others_alone(programs):
    pool = Pool(2, setup_for(programs))
    long, short = save_json(programs.unrolled), save_json(programs.copy)

    def kill_the_long_build() -> None:
        while not any(worker.builds >= 4 for worker in pool.workers):  # the other one has done the rest
            time.sleep(0.1)
        (busy,) = [worker for worker in pool.workers if worker.builds == 1]
        busy.process.kill()

    try:
        pool.settle()
        killer = threading.Thread(target=kill_the_long_build)
        killer.start()
        requests = [("build", 1, long), *(("build", i, short) for i in (2, 3, 4)), ("build", 5, "no json")]
        replies = run(pool, requests, timeout_s=60)
        killer.join()
        assert [reply.failure for reply, _ in replies] == ["crash", None, None, None, "error"]
        assert "SIGKILL" in replies[0][0].message
        hung = run(pool, [("build", 6, long), ("build", 7, short)], timeout_s=3)
        assert [reply.failure for reply, _ in hung] == ["timeout", None]
        assert hung[0][0].seconds == pytest.approx(3, abs=1)
        assert pool.any().threads == 2
    finally:
        pool.kill()


def test_an_exception_while_waiting_leaves_the_pool_usable(programs, monkeypatch):
    pool = Pool(1, setup_for(programs))
    try:
        first = pool.any()
        plain = pools.wait

        def interrupted(connections, timeout=None):
            plain([], 0.2)
            raise KeyboardInterrupt

        monkeypatch.setattr(pools, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(pool, [("build", 1, save_json(programs.unrolled))], timeout_s=60)
        assert not first.running
        monkeypatch.setattr(pools, "wait", plain)
        assert run(pool, [("build", 1, save_json(programs.copy))], timeout_s=60)[0][0].failure is None
        pool.recycle(after_builds=2, memory_bytes=1e12)
        kept = pool.any()
        pool.recycle(after_builds=1, memory_bytes=1e12)
        assert not kept.running
        pool.settle()
        heavy = pool.any()
        pool.recycle(after_builds=100, memory_bytes=psutil.Process(heavy.process.pid).memory_info().rss / 2)
        assert not heavy.running
    finally:
        pool.kill()
    pool.kill()
    with pytest.raises(DeviceError, match="closed"):
        pool.fill()


def test_workers_that_never_start_are_reported(monkeypatch):
    pool = Pool(1, WorkerSetup("not a module", "not a target", 1, TimingRule()))
    try:
        with pytest.raises(DeviceError, match="do not start"):
            pool.any()
    finally:
        pool.kill()
