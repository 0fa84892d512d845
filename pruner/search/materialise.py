"""From a decided trace to a schedule: TVM replays the trace and post-processes the program."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm_ffi import structural_hash

from pruner import _tvm
from pruner.cores import usable_cpus
from pruner.errors import ConfigError, RejectedError
from pruner.workload import Task

if TYPE_CHECKING:
    from pruner.search.candidate import Candidate

# Post-processors that change nothing, and take longer than all others together: they lower the program.
_VERIFY = ("VerifyGPUCode", "VerifyVTCMLimit")

# Fixes what TVM draws itself: the decisions of the sketches' traces, of which only the form is used.
_SEED = 1


def tune_context(task: Task) -> ms.TuneContext:
    """TVM's tuning context of the task, with the schedule rules and post-processors of its target. Raises
    ConfigError when TVM has none for the target."""
    try:
        return _tvm.tune_context(
            task.target,
            mod=task.mod,
            space_generator="post-order-apply",
            task_name=task.name,
            num_threads=1,
            rand_state=_SEED,
        )
    except Exception as error:  # TVM raises its own kinds of error
        raise ConfigError(
            f"target {task.target} cannot be tuned for: TVM has no schedule rules for it "
            f"({reason_of(error)}). Kinds that it has rules for are llvm and cuda, among others."
        ) from error


class Materialiser:
    """Replays traces of one task. Its methods may run in several threads at once."""

    def __init__(self, task: Task, context: ms.TuneContext | None = None) -> None:
        self._mod = task.mod
        self._context = context or tune_context(task)
        self._postprocessors = list(self._context.space_generator.postprocs)

    def replay(self, trace: Trace) -> Schedule:
        """The schedule before post-processing. Raises RejectedError when a primitive refuses."""
        schedule = Schedule(self._mod, seed=_SEED)
        try:
            trace.apply_to_schedule(schedule, remove_postproc=True)
        except Exception as error:  # TVM raises its own kinds of error
            raise RejectedError(f"a schedule primitive refused the candidate: {reason_of(error)}") from error
        return schedule

    def materialise(self, trace: Trace, *, verify: bool = True) -> Schedule:
        """The schedule after the target's post-processors; without `verify` those are left out that look
        whether the device can run the program. Raises RejectedError, naming what refused."""
        schedule = self.replay(trace)
        schedule.enter_postproc()
        for postprocessor in self._postprocessors:
            name = type(postprocessor).__name__
            if name in _VERIFY and not verify:
                continue
            try:
                accepted = postprocessor.apply(schedule)
            except Exception as error:  # as above
                raise RejectedError(f"post-processor {name} failed: {reason_of(error)}") from error
            if not accepted:
                raise RejectedError(f"post-processor {name} refused the candidate")
        return schedule


def materialise_many(
    candidates: Sequence[Candidate], threads: int | None = None, *, verify: bool = True
) -> list[Schedule | RejectedError]:
    """Each candidate's schedule or why it has none, in order; TVM works without Python's lock, so that
    `threads` of them proceed at once, by default as many as this process has cores. Without `verify`, as
    `Candidate.unverified` makes them."""
    if threads is None:
        threads = len(usable_cpus())

    def attempt(candidate: Candidate) -> Schedule | RejectedError:
        try:
            return candidate.materialise() if verify else candidate.unverified()
        except RejectedError as error:
            return error

    if threads <= 1 or len(candidates) <= 1:
        return [attempt(candidate) for candidate in candidates]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(attempt, candidates))


# Where TVM has accepted none of so many rows that the space takes for legal, it accepts none at all: mostly
# because it cannot lower the program.
HOPELESS = 512


def new_programs(candidates: Sequence[Candidate], known: set[int]) -> list[int]:
    """Positions of the candidates that TVM accepts and whose program is not in `known`, a set of structural
    hashes that they are added to. Different decisions often give the same program."""
    new = []
    for position, schedule in enumerate(materialise_many(candidates)):
        if isinstance(schedule, RejectedError):
            continue
        program = structural_hash(schedule.mod)
        if program not in known:
            known.add(program)
            new.append(position)
    return new


def reason_of(error: Exception) -> str:
    """TVM's message without the program it prints: the primitive's name and what it objects to."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Error message: " in text:
        return f"{lines[0]} {text.split('Error message: ')[-1].strip()}"
    return lines[-1] if lines else type(error).__name__
