"""What goes wrong in a component, in one line that says where."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pruner.errors import ConfigError, PrunerError

_PACKAGE = Path(__file__).parent


@contextmanager
def faults_told(what: str, kind: object) -> Iterator[None]:
    """Around what a component does where nothing stands in for it. Raises ConfigError, with the error and its
    line, for what is no error of this package's. what: names it in the message. kind: the component's
    class."""
    try:
        yield
    except PrunerError:
        raise
    except Exception as error:
        raise ConfigError(f"{what} raised {told(error, kind)}. Mend it, or its settings.") from error


def told(error: Exception, kind: object) -> str:
    """The error and the line that raised it: where the user wrote it, as far as that can be told. kind: the
    class of the component that it came out of."""
    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(sys.modules.get(getattr(kind, "__module__", "")), "__file__", None)
    mine = [frame for frame in frames if frame.filename == own]
    outside = [
        f for f in frames if "site-packages" not in f.filename and _PACKAGE not in Path(f.filename).parents
    ]
    frame = (mine or outside or frames)[-1]
    text = " ".join(str(error).split())
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{what.rstrip('.')} ({Path(frame.filename).name}, line {frame.lineno})"
