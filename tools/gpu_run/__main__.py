"""`python3 -m gpu_run FOLDER`; see the package."""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import RunError
from .loop import run

# Of minutes and of seconds: what a wait takes.
LONGEST = 1e5


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 when all that ran was right, 1 when something was wrong or nothing ran, 2 for a run that
    could not go on, 130 when it was interrupted."""
    parser = argparse.ArgumentParser(prog="gpu_run", description="checks and times prepared programs")
    parser.add_argument("folder", type=Path, help="what `gpu_check.sh prepare` made")
    parser.add_argument("--minutes", type=float, default=5.0, help="of the whole run (5)")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds before a program is killed (10)")
    parser.add_argument("--out", type=Path, help="where records.jsonl goes (the folder)")
    given = parser.parse_args(words)
    if not (0 < given.minutes < LONGEST and 0 < given.limit < LONGEST):
        parser.error(f"--minutes and --limit must be above 0 and below {LONGEST:g}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a time limit's signal, mostly
    try:
        if importlib.util.find_spec("cupy") is None:
            raise RunError(
                f"{sys.executable} has no CuPy: name an interpreter that has it (PYTHON=/path/to/python3) "
                "or install it (pip install cupy-cuda13x, or the one for the machine's CUDA)."
            )
        right = run(given.folder, given.out or given.folder, given.minutes, given.limit, _say)
    except RunError as error:
        sys.stderr.write(f"gpu_run: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("gpu_run: interrupted; what was recorded is kept\n")
        return 130
    return 0 if right else 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
