"""A candidate: one schedule that can be materialised."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace

from pruner.errors import RejectedError
from pruner.search.materialise import Materialiser
from pruner.workload import Task

if TYPE_CHECKING:
    from pruner.search.space import Space


class Candidate(ABC):
    """One program of a space. Candidates with the same `key` are the same program. task: what it computes,
    where the candidate tells."""

    key: bytes
    task: Task | None = None

    @abstractmethod
    def materialise(self) -> Schedule:
        """The schedule after TVM's post-processors, made once and kept.

        Raises RejectedError when a primitive or a post-processor refuses it."""

    @property
    @abstractmethod
    def decided(self) -> Trace:
        """The trace with its decisions, as it is before TVM applies it."""

    def unverified(self) -> Schedule:
        """The same schedule, but TVM may not have looked whether the device can run it: to be read, not to
        be built. Raises RejectedError when something else refuses it."""
        return self.materialise()


class RowCandidate(Candidate):
    """A row of a space.

    Args:
        space: where the row is from.
        sketch_id: its sketch.
        row: int64[space.width], its decisions.
    """

    def __init__(self, space: Space, sketch_id: int, row: NDArray[np.int64]) -> None:
        self.space = space
        self.task = space.task
        self.sketch_id = sketch_id
        self.row = row.copy()  # a view would keep its whole population alive
        self.key = np.concatenate([[np.int64(sketch_id)], row]).tobytes()
        self._schedule: Schedule | None = None
        self._unverified: Schedule | None = None

    @property
    def decided(self) -> Trace:
        return self.space.sketches[self.sketch_id].decided(self.row)

    def materialise(self) -> Schedule:
        if self._schedule is None:
            self._schedule = self.space.materialiser.materialise(self.decided)
        return self._schedule

    def unverified(self) -> Schedule:
        if self._schedule is None and self._unverified is None:
            self._unverified = self.space.materialiser.materialise(self.decided, verify=False)
        return self._schedule or self._unverified


class TraceCandidate(Candidate):
    """A decided trace of a task, for strategies that bring their own traces. Its key is the structural hash
    of the materialised program, or a digest of the trace where TVM refuses it."""

    task: Task

    def __init__(self, task: Task, trace: Trace) -> None:
        self.task = task
        self._decided = trace
        self._schedule: Schedule | None = None
        self._unverified: Schedule | None = None

    @classmethod
    def of(cls, task: Task, schedule: Schedule) -> TraceCandidate:
        """The candidate of a schedule that is post-processed already."""
        candidate = cls(task, schedule.trace)
        candidate._schedule = schedule
        return candidate

    @property
    def decided(self) -> Trace:
        return self._decided

    def materialise(self) -> Schedule:
        if self._schedule is None:
            self._schedule = _materialiser(self.task).materialise(self._decided)
        return self._schedule

    def unverified(self) -> Schedule:
        if self._schedule is None and self._unverified is None:
            self._unverified = _materialiser(self.task).materialise(self._decided, verify=False)
        return self._schedule or self._unverified

    @cached_property
    def key(self) -> bytes:  # type: ignore[override]  # computed late: it needs the program
        try:
            return (int(tvm_ffi.structural_hash(self.materialise().mod)) % 2**64).to_bytes(8, "little")
        except RejectedError:
            text = json.dumps(self._decided.as_json(True), default=lambda boxed: boxed.value)
            return hashlib.sha256(text.encode()).digest()


@lru_cache(maxsize=8)
def _materialiser(task: Task) -> Materialiser:
    return Materialiser(task)
