"""Keeps programs that are timed off cores that TVM's other threads occupy.

TVM binds every thread of its pool to a core but leaves the calling thread free to move, and the system often
puts it on a core that is taken; and after a parallel loop the pool's threads spin for about a tenth of a
second, on cores where another process may be timed next. Either way a program runs at half its speed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import tvm

# How long threads may spin at most (they count turns, not seconds), and the time between two looks.
_SPIN_S = 2.0
_LOOK_S = 0.01
_BIG_CORES = 1  # TVM's default mode: as many threads as it is allowed, the fastest cores first


def start_pool() -> None:
    """Starts the calling thread's pool now; TVM would at the first parallel loop."""
    tvm.get_global_func("runtime.config_threadpool")(_BIG_CORES, 0)


@contextmanager
def apart() -> Iterator[None]:
    """While open, the calling thread runs on cores that no thread of the pool is bound to. Where the system
    cannot tell or bind, or no core is left, nothing happens."""
    if not hasattr(os, "sched_setaffinity") or not os.path.isdir("/proc/self/task"):
        yield
        return
    mine = threading.get_native_id()
    allowed = os.sched_getaffinity(mine)
    left = allowed - _bound(mine)
    if not left:
        yield
        return
    os.sched_setaffinity(mine, left)
    try:
        yield
    finally:
        os.sched_setaffinity(mine, allowed)


def wait_until_idle() -> None:
    """Returns when this process computes nothing any more."""
    deadline = time.monotonic() + _SPIN_S
    spent = time.process_time()
    while time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        before, spent = spent, time.process_time()
        if spent - before < 0.1 * _LOOK_S:
            return


def _bound(but: int) -> set[int]:
    """Cores that have a thread of this process bound to them."""
    cores: set[int] = set()
    for name in os.listdir("/proc/self/task"):
        with suppress(OSError):  # it may have ended
            cpus = os.sched_getaffinity(int(name))
            if len(cpus) == 1 and int(name) != but:
                cores |= cpus
    return cores
