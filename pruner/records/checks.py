"""What a file's data set must hold before TVM is given any of it: TVM divides by what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.errors import ConfigError
from pruner.measure.measurement import FAILURES
from pruner.records.reading import FAILED_S, parse
from pruner.records.trace_upgrade import check_rows, decide, upgrade

if TYPE_CHECKING:
    from pruner.records.dataset import Dataset

# Records are counted in it; the numbers of several data sets can be added.
_LATEST = 1 << 53


def check(dataset: Dataset) -> None:
    """Raises ConfigError, naming a record by its row, for values that no measurement gives and for decisions
    that their sketches do not have."""
    ran = dataset.failure == ""
    _require(~ran | ((dataset.latency_s > 0) & (dataset.latency_s < FAILED_S)), "latency_s", "above 0 s")
    for name in ("spread_s", "cost_s"):
        column = getattr(dataset, name)
        _require(np.isnan(column) | ((column >= 0) & (column < FAILED_S)), name, "at least 0 s, or NaN")
    _require(ran | np.isin(dataset.failure, FAILURES), "failure", f"empty or one of {', '.join(FAILURES)}")
    _require((dataset.order >= 0) & (dataset.order < _LATEST), "order", "at least 0")
    for position, task in enumerate(dataset.tasks):
        mine = dataset.task == position
        for number, signature in enumerate(task.sketches):
            try:
                check_rows(signature, dataset.decisions[mine & (dataset.sketch_ids == number)])
            except ValueError as error:
                raise ConfigError(f"sketch {number} of task {task.id}, or a row of it: {error}.") from error
    # Records without a row have a trace of their own.
    for row in np.flatnonzero(dataset.sketch_ids < 0).tolist():
        try:
            _check_trace(parse(dataset.traces[row] or ""))
        except ValueError as error:
            raise ConfigError(f"the trace of record {row}: {error}.") from error


def _check_trace(trace: Any) -> None:
    """Raises ValueError, with a short reason, for no trace that is decided."""
    if not isinstance(trace, list) or len(trace) != 2 or not all(isinstance(part, list) for part in trace):
        raise ValueError("trace form")
    decide(upgrade(trace[0]), trace[1])


def _require(holds: np.ndarray[Any, np.dtype[np.bool_]], name: str, needed: str) -> None:
    if not holds.all():
        row = int(np.argmin(holds))
        raise ConfigError(f"{name} of record {row} is not accepted: it must be {needed}.")
