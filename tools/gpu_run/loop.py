"""Runs the programs of a folder one by one, within a time, and keeps what became of each."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .errors import RunError
from .records import RECORDS, RecordFile, read_manifest
from .summary import Outcome, duration, table
from .worker import serve

START_S = 120.0  # for the process to start and to find the GPU
TASK_S = 120.0  # for the reference of a task
# Processes in a row that did not survive their first program: the GPU is at fault, not the programs.
FRUITLESS = 5


class Timeout(Exception):
    """A worker did not answer in time, and was killed."""


class Died(Exception):
    """A worker's process ended; the message says how."""


class Worker:
    """A process that runs programs, started anew after it was killed or died."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: Any = None
        self._connection: Any = None
        self._tasks: set[int] = set()

    def start(self, limit: float = START_S) -> dict[str, Any]:
        """What GPU it found. Raises RunError where it found none."""
        # Not forked: a CUDA driver does not survive that.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, self._folder), daemon=True)
        self._process.start()
        theirs.close()
        self._tasks = set()
        try:
            answer = self._answer(limit)
        except Timeout:
            raise RunError(f"the GPU cannot be used: no answer within {limit:g} s.") from None
        except Died as error:
            raise RunError(f"the GPU cannot be used: {error}.") from None
        if "error" in answer:
            self.stop()
            raise RunError(f"the GPU cannot be used: {answer['error']}")
        device: dict[str, Any] = answer["device"]
        return device

    def run(self, number: int, task: int, limit: float) -> dict[str, Any]:
        """What became of a program; the limit is the program's alone. Raises Timeout and Died."""
        if self._process is None:
            self.start()
        if task not in self._tasks:
            self._take_up(task)
        answer = self._ask(("program", number), limit)
        if answer.pop("broken", False):
            self.stop()
        return answer

    def _take_up(self, task: int) -> None:
        try:
            problem = self._ask(("task", task), TASK_S).get("error")
        except Timeout:
            problem = f"no reference within {TASK_S:g} s"
        except Died as error:
            problem = str(error)
        if problem:
            raise RunError(f"the programs of task {task} cannot be checked: {problem}.")
        self._tasks.add(task)

    def stop(self) -> None:
        """Kills it."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
        self._process = None

    def _ask(self, request: tuple[str, int], limit: float) -> dict[str, Any]:
        try:
            self._connection.send(request)
        except OSError:
            self._lost()
        return self._answer(limit)

    def _answer(self, limit: float) -> dict[str, Any]:
        if not self._connection.poll(max(0.0, limit)):
            self.stop()
            raise Timeout
        try:
            answer: dict[str, Any] = self._connection.recv()
        except (EOFError, OSError):
            self._lost()
        return answer

    def _lost(self) -> None:
        self._process.join()
        code = self._process.exitcode
        self.stop()
        raise Died(f"the process died (exit code {code})")


def run(folder: Path, out: Path, minutes: float, limit_s: float, say: Callable[[str], None]) -> bool:
    """Runs what the records in `out` do not hold yet, until `minutes` have passed. limit_s: of one program.

    Returns whether every program that ran was right, and one did. Raises RunError when the run cannot go on.
    """
    end = time.monotonic() + 60.0 * minutes
    manifest = read_manifest(folder)
    file = RecordFile(out / RECORDS, manifest)
    known = {record["program"] for _, record in file.contents.records}
    runnable = [i for i, program in enumerate(manifest["programs"]) if program["failure"] is None]
    waiting = [i for i in runnable if i not in known]
    say(f"{len(runnable)} programs, {len(runnable) - len(waiting)} of them recorded already; {out / RECORDS}")
    worker = Worker(folder)
    try:
        if waiting:
            device = worker.start()
            say(", ".join(f"{name} {value}" for name, value in device.items()))
            if device not in file.contents.devices[-1:]:
                file.append({"kind": "device", "manifest": manifest["id"], "device": device})
            _run_all(manifest, waiting, worker, file, end, limit_s, say)
    finally:
        worker.stop()
        outcomes = _outcomes(manifest, file)
        if file.contents.devices:
            left = len(runnable) - len(file.contents.records)
            say(f"\n{table(outcomes)}")
            say(f"not run: {left}; call it again to go on" if left else "every program had its turn")
    failures = {outcome.failure for outcome in outcomes}
    return None in failures and "wrong" not in failures


def _run_all(
    manifest: dict[str, Any],
    waiting: list[int],
    worker: Worker,
    file: RecordFile,
    end: float,
    limit_s: float,
    say: Callable[[str], None],
) -> None:
    deaths = 0
    for number in waiting:
        task = manifest["programs"][number]["task"]
        start = time.monotonic()
        limit = min(limit_s, end - start)
        if limit <= 0:
            return
        try:
            answer = worker.run(number, task, limit)
        except Timeout:
            if limit < limit_s:
                return  # the run's time is over, not the program's
            answer = {"failure": "timeout", "message": f"killed after {limit_s:g} s"}
        except Died as error:
            answer = {"failure": "run", "message": str(error)}
        deaths = 0 if "run_s" in answer else deaths + 1
        answer.setdefault("run_s", time.monotonic() - start)
        order = len(file.contents.records)
        file.append({"kind": "record", "program": number, "order": order, **answer})
        say(_progress(manifest, number, order, answer))
        if deaths == FRUITLESS:
            raise RunError(f"{FRUITLESS} programs in a row hung or ended their process: {answer['message']}.")


def _progress(manifest: dict[str, Any], number: int, order: int, answer: dict[str, Any]) -> str:
    program = manifest["programs"][number]
    name = f"{order + 1:4d}  {manifest['tasks'][program['task']]['name']:8} {program['arm']:6} {number:4d}"
    if answer["failure"] is not None:
        return f"{name}  {answer['failure']}: {answer['message']}"
    spread = answer["spread_s"]
    percent = "" if spread is None else f" +- {100 * spread / answer['median_s']:.1f} %"
    return f"{name}  {duration(answer['median_s'])}{percent}  (predicted {duration(program['predicted_s'])})"


def _outcomes(manifest: dict[str, Any], file: RecordFile) -> list[Outcome]:
    """Of the programs that did not compile, and of those that ran; by task."""
    programs = manifest["programs"]
    found = [(program, program["failure"], None) for program in programs if program["failure"]]
    for _, record in file.contents.records:
        found.append((programs[record["program"]], record["failure"], record.get("median_s")))
    found.sort(key=lambda each: int(each[0]["task"]))
    return [
        Outcome(
            manifest["tasks"][program["task"]]["name"],
            program["arm"],
            program["predicted_s"],
            latency,
            failure,
        )
        for program, failure, latency in found
    ]
