import os
import subprocess
import sys
import threading
import time

import pytest

from pruner import child
from pruner.measure.affinity import wait_until_idle

APART = """
import os, sys, threading
from pruner.measure.affinity import apart, start_pool
before = os.sched_getaffinity(0)
start_pool()
bound = [os.sched_getaffinity(int(t)) for t in os.listdir("/proc/self/task")]
taken = set().union(*(cpus for cpus in bound if len(cpus) == 1))
with apart():
    assert taken and not os.sched_getaffinity(0) & taken, (taken, os.sched_getaffinity(0))
    assert os.sched_getaffinity(0) | taken == before
assert os.sched_getaffinity(0) == before
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two cores"
)
def test_the_calling_thread_leaves_the_cores_of_the_pool():
    done = subprocess.run(
        [sys.executable, "-c", APART], env=child.environment(2), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_waits_for_threads_that_spin():
    ended = []

    def spin():
        start = time.thread_time()
        while time.thread_time() - start < 0.2:
            pass
        ended.append(True)

    thread = threading.Thread(target=spin)
    thread.start()
    wait_until_idle()
    assert ended
    thread.join()
