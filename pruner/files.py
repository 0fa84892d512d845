"""Files that appear whole or not at all, and folders that go."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Writes the text in place of what `path` held; when that fails, what it held stays. Raises OSError."""
    draft = path.with_name(f".{path.name}.part")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def remove_folder(path: str | Path, patience_s: float = 1.0) -> None:
    """Removes a folder in which someone who is ending may still write; gives up after some time."""
    deadline = time.monotonic() + patience_s
    while Path(path).exists() and time.monotonic() < deadline:
        shutil.rmtree(path, ignore_errors=True)
