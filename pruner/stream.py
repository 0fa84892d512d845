"""An output stream whose loss does not end a run."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO


class LastingStream(io.TextIOBase):
    """Writes to another text stream until that fails (a closed pipe, a full disk), then to nowhere.

    A character that the stream's encoding does not have is written as an escape.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lost = False

    @property
    def encoding(self) -> str:  # type: ignore[override]  # a plain attribute there
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        return not self._lost and self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        known = text.encode(self.encoding, "backslashreplace").decode(self.encoding)
        self._attempt(lambda: self._stream.write(known))
        return len(text)

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def _attempt(self, action: Callable[[], object]) -> None:
        if self._lost:
            return
        try:
            action()
        except (OSError, ValueError):  # ValueError: the stream was closed on this side
            self._lost = True
            # What is still buffered would fail again when Python exits.
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)
