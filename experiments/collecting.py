"""One block of a collection: programs of one task on one target, chosen, measured, the fastest checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tvm_ffi import structural_hash

from pruner.analyzer.draft import DraftModel, draft_scores
from pruner.measure.measurement import Measurement, Measurer
from pruner.records.dataset import Dataset, RecordedTask, object_column
from pruner.search.candidate import RowCandidate
from pruner.search.explorer import explore
from pruner.search.latent import SLOW_EXPLORED
from pruner.search.materialise import new_programs
from pruner.search.population import Population
from pruner.search.random import RandomSession
from pruner.search.space import Space

# So many of a block's fastest programs are compared with the untuned program.
CHECKED = 5


@dataclass(frozen=True)
class Chosen:
    """A program of a block. random: drawn at random; else out of a draft."""

    candidate: RowCandidate
    random: bool


def choose(space: Space, draft: DraftModel, n: int, rng: np.random.Generator) -> list[Chosen]:
    """n distinct programs that TVM accepts, fewer where there are not so many, in random order: half of them
    drawn at random, half at random from what one draft keeps."""
    drawn = [c for c in RandomSession(space, rng).propose(n - n // 2) if isinstance(c, RowCandidate)]
    known = {structural_hash(candidate.materialise().mod) for candidate in drawn}
    kept, _ = explore(
        space,
        lambda rows: draft_scores(draft, rows),
        explored=draft.explored if all(space.supported) else min(draft.explored, SLOW_EXPLORED),
        size=draft.size,
        measured=_rows(space, drawn).hashes(),
        seeds=None,
        rng=rng,
    )
    drafted: list[RowCandidate] = []
    left = [c for c in kept[rng.permutation(len(kept))] if isinstance(c, RowCandidate)]
    while left and len(drafted) < n // 2:
        wanted = n // 2 - len(drafted)
        tried, left = left[:wanted], left[wanted:]
        drafted += [tried[i] for i in new_programs(tried, known)]
    chosen = [*(Chosen(c, True) for c in drawn), *(Chosen(c, False) for c in drafted)]
    return [chosen[i] for i in rng.permutation(len(chosen))]


def measured(measurer: Measurer, chosen: Sequence[Chosen], batch: int) -> list[Measurement]:
    """A measurement each, in order, `batch` built at once. The CHECKED fastest were compared with the untuned
    program; one that computes something else is a failure, and the next fastest is compared in its place."""
    found: list[Measurement] = []
    for start in range(0, len(chosen), batch):
        found += measurer.measure([one.candidate for one in chosen[start : start + batch]])
    compared: set[int] = set()
    while True:
        ran = [i for i, m in enumerate(found) if m.latency_s is not None]
        fastest = sorted(ran, key=lambda i: found[i].latency_s or 0.0)[:CHECKED]
        new = [i for i in fastest if i not in compared]
        if not new:
            return found
        compared.update(new)
        for i, again in zip(new, measurer.confirm([chosen[i].candidate for i in new]), strict=True):
            found[i] = replace(found[i], compared=again.compared)
            if again.failure is not None:
                found[i] = replace(
                    found[i], latency_s=None, spread_s=None, failure=again.failure, message=again.message
                )


def recorded(
    task: RecordedTask, space: Space, chosen: Sequence[Chosen], found: Sequence[Measurement], device: str
) -> tuple[Dataset, Dataset]:
    """The random programs and the drafted ones as data sets of the task, whose sketches are the space's;
    `order` is the one in which all were measured."""
    rows = _rows(space, [one.candidate for one in chosen])
    n = len(chosen)
    whole = Dataset(
        (replace(task, sketches=tuple(sketch.signature for sketch in space.sketches)),),
        task=np.zeros(n, dtype=np.int64),
        sketch_ids=rows.sketch_ids,
        decisions=rows.decisions,
        traces=object_column([None] * n),
        latency_s=np.array([_number(m.latency_s) for m in found]),
        spread_s=np.array([_number(m.spread_s) for m in found]),
        failure=np.array([m.failure or "" for m in found], dtype=np.str_),
        cost_s=np.array([m.build_s + m.run_s for m in found]),
        order=np.arange(n),
        device=np.array([device] * n, dtype=np.str_),
    )
    random = np.array([one.random for one in chosen], dtype=bool)
    return whole[random], whole[~random]


def _rows(space: Space, candidates: Sequence[RowCandidate]) -> Population:
    ids = np.array([candidate.sketch_id for candidate in candidates], dtype=np.int64)
    decisions = np.array([candidate.row for candidate in candidates], dtype=np.int64)
    return Population(space, ids, decisions.reshape(len(ids), space.width))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
