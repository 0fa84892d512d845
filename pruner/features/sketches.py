"""Whether the decisions of a sketch's candidates tell a feature as their programs do.

The rules of arrays are found on known operators; a program may have what none of them had. So every sketch is
tried once, on a few of its candidates, against TVM's answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pruner.errors import RejectedError
from pruner.features.batch import FeatureBatch
from pruner.measure.clock import stage
from pruner.search.candidate import Candidate, RowCandidate
from pruner.search.materialise import materialise_many
from pruner.search.population import Population
from pruner.search.space import Space

_log = logging.getLogger(__name__)

# So many candidates of a sketch are tried, and of more than a few one may differ: between buffers of one name
# and size TVM's hash table decides.
_TRIED = 24
_FEW = 8
# In TVM's scale, log2(1 + x).
_TOLERANCE = 1e-5

_Told = tuple[FeatureBatch, NDArray[np.int64]]


def trusted(
    candidates: Population | Sequence[Candidate], agrees: Callable[[Space, int], bool]
) -> NDArray[np.bool_]:
    """bool[n], whether `agrees` is true of a candidate's space and sketch; of traces it is not asked."""
    if isinstance(candidates, Population):
        found = np.zeros(len(candidates), dtype=bool)
        for sketch in np.unique(candidates.sketch_ids).tolist():
            found[candidates.sketch_ids == sketch] = agrees(candidates.space, sketch)
        return found
    asked = [isinstance(one, RowCandidate) and agrees(one.space, one.sketch_id) for one in candidates]
    return np.array(asked, dtype=bool)


def agrees(
    space: Space,
    sketch: int,
    told: Callable[[Sequence[Candidate]], _Told],
    of_programs: Callable[[Sequence[Candidate]], FeatureBatch],
) -> bool:
    """Whether `told`, which gives the candidates it can tell with their positions, gives for random ones of a
    sketch what `of_programs` gives."""
    if not space.supported[sketch]:
        return False
    candidates = list(space.legal_of(sketch, _TRIED, np.random.default_rng(0)))
    with stage("materialise"):
        made = materialise_many(candidates, verify=False)
    candidates = [
        one for one, schedule in zip(candidates, made, strict=True) if not isinstance(schedule, RejectedError)
    ]
    try:
        ours, positions = told(candidates)
    except Exception as error:  # a program of another kind than the rules were made for: no telling what
        _log.info("sketch %s of %s is read from programs: %r", sketch, space.task.name, error)
        return False
    theirs = of_programs([candidates[i] for i in positions])
    differ = sum(not _equal(ours, theirs, i) for i in range(len(positions)))
    return len(positions) > 0 and differ <= (len(positions) > _FEW)


def _equal(ours: FeatureBatch, theirs: FeatureBatch, i: int) -> bool:
    one, other = (batch.values[batch.offsets[i] : batch.offsets[i + 1]] for batch in (ours, theirs))
    return one.shape == other.shape and bool(np.all(np.abs(one - other) <= _TOLERANCE))
