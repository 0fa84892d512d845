"""Ctrl-C in two steps: the first one asks to stop, the second one stops; and requests to terminate."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pruner.display import Display


class Stop:
    """What the user asked for with Ctrl-C, or the system with a request to terminate."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._asked = False
        self._holds = 0
        self._pending = False

    def is_set(self) -> bool:
        """Whether the run should end after the batch in hand."""
        return self._asked

    @contextmanager
    def held(self) -> Iterator[None]:
        """A second Ctrl-C in here waits for the next `check`: what is inside is short and must be whole."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def check(self) -> None:
        """Raises the KeyboardInterrupt that had to wait."""
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def handle(self, signum: int, frame: object) -> None:
        """The signal handler. SIGTERM comes from a system that will not wait for a batch."""
        if not self._asked and signum == signal.SIGINT:
            self._asked = True
            with suppress(RuntimeError):  # the signal came in the middle of another message
                self._display.message("Stopping after this batch; Ctrl-C again stops at once.")
            return
        self._asked = True
        if self._holds:
            self._pending = True
            return
        raise KeyboardInterrupt


@contextmanager
def stop_on_interrupt(display: Display) -> Iterator[Stop]:
    """Ctrl-C sets the stop, and the batch in hand is finished; a second one interrupts at once, and so does
    SIGTERM. Outside the main thread signals are not ours, and nothing changes."""
    stop = Stop(display)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop.handle) for number in signals}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            # None: it was not set from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """While open, SIGTERM is a KeyboardInterrupt, so that what this process started and its temporary files
    go with it. Outside the main thread signals are not ours, and nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        # None: it was not set from Python.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
