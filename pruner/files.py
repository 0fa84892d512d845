"""Files and folders that appear whole or not at all, and folders that go."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pruner.errors import ConfigError


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Where to write a file or folder that takes the place of `path` when the block ends; when that fails,
    what `path` held stays. A folder replaces none that holds something. Raises OSError."""
    draft = path.with_name(f".{path.name}.part")
    try:
        yield draft
        draft.replace(path)
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Writes the text in place of what `path` held; when that fails, what it held stays. Raises OSError."""
    with draft_of(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Holds a folder that is there for this process alone; goes with the process, however it ends. Raises
    ConfigError while another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"another process works in {folder}. Wait for it, or choose another folder."
            ) from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def one_writer(path: Path) -> Iterator[None]:
    """Waits until no other process is in such a block for `path`, which need not be there; a hidden file
    beside it holds the lock and stays. Raises OSError."""
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def remove_folder(path: str | Path, patience_s: float = 1.0) -> None:
    """Removes a folder in which someone who is ending may still write; gives up after some time."""
    deadline = time.monotonic() + patience_s
    while Path(path).exists() and time.monotonic() < deadline:
        shutil.rmtree(path, ignore_errors=True)
