"""An arm's process: `pruner tune` with settings of its own, on a clock that its parent started."""

from __future__ import annotations

import os
import sys
import threading


def end_with_parent() -> None:
    """Ends this process when its parent is gone: standard input is a pipe that the parent holds open."""

    def watch() -> None:
        os.read(0, 1)  # not sys.stdin, whose lock would be held when Python exits
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(launched: str, *overrides: str) -> None:
    """launched: when the parent made this process, a reading of time.perf_counter in seconds."""
    end_with_parent()
    from pruner.config import compose
    from pruner.errors import PrunerError
    from pruner.measure.clock import Clock

    clock = Clock(float(launched))
    try:
        cfg = compose(overrides)
        from pruner.tune import run

        run(cfg, clock)
    except PrunerError as error:
        sys.exit(f"{error}")
