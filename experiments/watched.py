"""A long step of work under observation: its seconds, its memory, and a sign of life now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

import psutil

# Seconds between two looks at the memory, and between two signs of life.
_LOOK_S = 0.05
_PATIENCE_S = 30.0


class Watched:
    """`with Watched(say, "fitting") as work: ...`; then `work.seconds`, and `work.peak_bytes`, the most
    memory that the process held meanwhile (resident; looked at 20 times a second)."""

    def __init__(self, say: Callable[[str], None], what: str) -> None:
        self._say = say
        self._what = what
        self._done = threading.Event()
        self._process = psutil.Process()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.seconds = 0.0
        self.peak_bytes = 0

    def __enter__(self) -> Watched:
        self._look()
        self._start = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._start
        self._done.set()
        self._thread.join()
        self._look()

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)

    def _watch(self) -> None:
        told = time.perf_counter()
        while not self._done.wait(_LOOK_S):
            self._look()
            if time.perf_counter() - told > _PATIENCE_S:
                told = time.perf_counter()
                self._say(f"{self._what}: {told - self._start:.0f} s so far")
