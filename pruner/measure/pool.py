"""Workers that live for a whole run: kept at strength, waited for with a deadline, killed when over it."""

from __future__ import annotations

import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

import psutil

from pruner.errors import DeviceError
from pruner.measure.process import Reply, Worker, WorkerSetup

_START_TIMEOUT_S = 180.0
_MOST_FAILED_STARTS = 3


class Pool:
    """`size` workers. Every wait ends at a deadline; an exception while waiting (a second Ctrl-C) kills
    the workers that are busy, so that the pool stays usable and can be closed."""

    def __init__(self, size: int, setup: WorkerSetup) -> None:
        self._size = size
        self._setup = setup
        self._workers: list[Worker] = []
        self._failed_starts = 0
        self._closed = False
        self._finalizer = weakref.finalize(self, _kill_all, self._workers)
        self.fill()

    @property
    def workers(self) -> list[Worker]:
        """Those that run."""
        return [worker for worker in self._workers if worker.running]

    def fill(self) -> None:
        """Starts what is missing, in the background. One that died with a request open is kept until its
        end has been heard."""
        if self._closed:
            raise DeviceError("the measurer is closed; make a new one")
        for worker in self._workers:
            if not worker.running and not worker.busy:
                worker.kill()
        self._workers[:] = [worker for worker in self._workers if worker.alive]
        while len(self._workers) < self._size:
            self._workers.append(Worker(self._setup))

    def settle(self) -> None:
        """Waits until no worker is starting, so that none disturbs a timing."""
        with self._killing_busy():
            while starting := self._starting():
                self._greet(starting, set(wait([worker.connection for worker in starting], 1.0)))

    def position(self, worker: Worker | None) -> int:
        """Where the worker stands among the workers; behind all of them when it is none of them."""
        return self.workers.index(worker) if worker in self.workers else len(self.workers)

    def any(self) -> Worker:
        """A ready worker: always the same one while it lives; a new one if there is none."""
        while True:
            for worker in self._workers:
                if worker.running and worker.ready and not worker.busy:
                    return worker
            if not self.workers:
                self.fill()
            self.settle()

    def ask(self, worker: Worker, name: str, *arguments: Any, timeout_s: float) -> Reply:
        """One request to one worker, waited for."""
        with self._killing_busy():
            start = time.monotonic()
            worker.request(name, *arguments)
            if worker.connection.poll(timeout_s):
                return worker.receive(time.monotonic() - start)
            worker.kill()
            return _timed_out(name, timeout_s)

    def run(
        self,
        requests: Sequence[tuple[Any, ...]],
        *,
        timeout_s: float,
        told: Callable[[int, Reply, Worker | None], None],
    ) -> None:
        """Requests spread over the workers. `told` hears of each reply when it comes: the request's number,
        the reply and the worker it came from, None when that is gone."""
        pending = deque(range(len(requests)))
        running: dict[Worker, tuple[int, float]] = {}
        with self._killing_busy():
            while pending or running:
                if pending:
                    self.fill()
                for worker in self._workers:
                    if pending and worker.running and worker.ready and not worker.busy:
                        running[worker] = (pending.popleft(), time.monotonic())
                        worker.request(*requests[running[worker][0]])
                starting = self._starting()
                now = time.monotonic()
                limits = [start + timeout_s - now for _, start in running.values()]
                patience = max(0.0, min(limits, default=1.0))
                heard = set(wait([worker.connection for worker in [*running, *starting]], patience))
                self._greet(starting, heard)
                for worker, (index, start) in list(running.items()):
                    elapsed = time.monotonic() - start
                    if worker.connection in heard:
                        told(index, worker.receive(elapsed), worker)
                    elif elapsed >= timeout_s:
                        worker.kill()
                        told(index, _timed_out(str(requests[index][0]), timeout_s), None)
                    else:
                        continue
                    del running[worker]

    def recycle(self, after_builds: int, memory_bytes: float) -> None:
        """Replaces, in the background, workers that built enough or hold too much memory."""
        for worker in self.workers:
            if worker.builds >= after_builds or _resident(worker) > memory_bytes:
                worker.kill()
        self.fill()

    def kill(self) -> None:
        """Ends all workers at once, for good. Safe to call twice."""
        self._closed = True
        _kill_all(self._workers)

    def _starting(self) -> list[Worker]:
        return [worker for worker in self._workers if worker.alive and not worker.ready]

    def _greet(self, starting: Sequence[Worker], heard: Container[object]) -> None:
        """Takes the first word of those that were heard. One failed start may be an accident; several
        are a machine that cannot measure."""
        for worker in starting:
            if worker.connection in heard:
                reply = worker.receive(0.0)
            elif time.monotonic() - worker.started > _START_TIMEOUT_S:
                worker.kill()
                reply = _timed_out("its start", _START_TIMEOUT_S)
            else:
                continue
            if reply.failure is None:
                worker.threads = int(reply.value)
                self._failed_starts = 0
                continue
            self._failed_starts += 1
            if self._failed_starts >= _MOST_FAILED_STARTS:
                raise DeviceError(
                    f"measuring workers do not start: {reply.message}; "
                    f"check that `import tvm` works with {sys.executable} and that memory is free"
                )

    @contextmanager
    def _killing_busy(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for worker in self._workers:
                if worker.busy:
                    worker.kill()
            raise


def _timed_out(name: str, timeout_s: float) -> Reply:
    return Reply(
        None, timeout_s, "timeout", f"{name} took longer than {timeout_s:g} s; the worker was killed"
    )


def _resident(worker: Worker) -> int:
    try:
        return int(psutil.Process(worker.process.pid).memory_info().rss)
    except psutil.Error:
        return 0


def _kill_all(workers: list[Worker]) -> None:
    for worker in workers:
        worker.kill()
    workers.clear()
