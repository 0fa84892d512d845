"""Ctrl-C in two steps: the first one asks to stop, the second one stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pruner.display import Display


@contextmanager
def stop_on_interrupt(display: Display) -> Iterator[threading.Event]:
    """Ctrl-C sets the event, and the batch in hand is finished; a second one interrupts at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(signum: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        display.message("Stopping after this batch; Ctrl-C again stops at once.")

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
