"""The parent's handle of one measuring worker."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pruner import child
from pruner.files import remove_folder
from pruner.measure.cause import is_error, root_cause
from pruner.measure.timing import TimingRule


@dataclass(frozen=True)
class WorkerSetup:
    """What every worker of a measurer is started with; mod and target are TVM's JSON."""

    mod: str
    target: str
    threads: int
    rule: TimingRule


@dataclass(frozen=True)
class Reply:
    """The answer to a request. failure: None, `error` (it raised), `crash` (the worker died) or `timeout`
    (the worker was killed); message: the root cause in one line; seconds: what the request took."""

    value: Any
    seconds: float
    failure: str | None = None
    message: str = ""


class Worker:
    """One process. It has its own session, so a Ctrl-C at the terminal does not reach it, and a folder for
    its temporary files."""

    def __init__(self, setup: WorkerSetup) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        self._folder = tempfile.mkdtemp(prefix="pruner-")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process runs)
        self._logged = 0
        self.started = time.monotonic()
        self.threads: int | None = None
        self.builds = 0
        self.busy = True  # until it says that it is ready
        self.alive = True
        self.has_reference = False
        try:
            self.process = subprocess.Popen(
                child.command("pruner.measure.worker", str(theirs.fileno()), self._folder),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=child.environment(setup.threads),
            )
        except OSError:  # no memory, or too many processes
            self._release()
            raise
        finally:
            theirs.close()
        self._write(("start", setup.mod, setup.target, asdict(setup.rule)))

    @property
    def ready(self) -> bool:
        """TVM is loaded there."""
        return self.threads is not None

    @property
    def running(self) -> bool:
        """Neither killed by us nor found dead, and the process still exists."""
        return self.alive and self.process.poll() is None

    def request(self, name: str, *arguments: Any) -> None:
        """Asks an idle worker for something; `receive` has the answer."""
        self._logged = os.fstat(self._log.fileno()).st_size
        self.busy = True
        self.builds += name in ("build", "compile")
        self._write((name, *arguments))

    def receive(self, elapsed_s: float) -> Reply:
        """The answer that is waiting; a `crash` after `elapsed_s` when the process is gone."""
        try:
            kind, value, seconds = self.connection.recv()
        except (EOFError, OSError):
            message = self._last_words()
            self.kill()
            return Reply(None, elapsed_s, "crash", message)
        self.busy = False
        if kind == "error":
            return Reply(None, seconds, "error", value)
        return Reply(value, seconds)

    def kill(self) -> None:
        """Ends the process at once. Safe to call twice."""
        if not self.alive:
            return
        self.alive = False
        if self.process.returncode is None:  # its number is not another's yet
            # The whole session: a compiler that it started too.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._release()

    def _release(self) -> None:
        remove_folder(self._folder)
        self.connection.close()
        self._log.close()

    def _write(self, message: tuple[Any, ...]) -> None:
        with suppress(OSError):  # it died: `receive` will say so
            self.connection.send(message)

    def _last_words(self) -> str:
        """How the process ended, and the last error it wrote about."""
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            code = 0
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        size = os.fstat(self._log.fileno()).st_size
        log = os.pread(self._log.fileno(), min(size - self._logged, 65536), max(self._logged, size - 65536))
        errors = [line for line in log.decode(errors="replace").splitlines() if is_error(line)]
        return f"the worker ended with {how}" + (f": {root_cause(errors[-1])}" if errors else "")
