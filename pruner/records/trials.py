"""What a run journals of the candidates that it measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from pruner.errors import RejectedError
from pruner.measure.measurement import Measurement
from pruner.records.database import decided_json, trace_json
from pruner.records.journal import Contents, Trial
from pruner.search.candidate import Candidate


def trials_of(
    candidates: Sequence[Candidate],
    measurements: Sequence[Measurement],
    predicted: Sequence[float | None],
    number: int,
    first: int,
    elapsed_s: float,
    *,
    replayed: bool = False,
) -> list[Trial]:
    """A trial a candidate. predicted: the draft's seconds of each. number: of the round. first: the number of
    the first trial. elapsed_s: since the run began. replayed: TVM is not asked what it makes of the
    candidates."""
    trace_of = decided_json if replayed else trace_json
    return [
        Trial(
            trial=i,
            round=number,
            key=candidate.key.hex(),
            trace=trace_of(candidate),
            latency_s=m.latency_s,
            spread_s=m.spread_s,
            build_s=m.build_s,
            run_s=m.run_s,
            failure=m.failure,
            message=m.message,
            elapsed_s=elapsed_s,
            resources=None if m.resources is None else asdict(m.resources),
            draft_s=draft_s,
        )
        for i, (candidate, m, draft_s) in enumerate(
            zip(candidates, measurements, predicted, strict=True), first
        )
    ]


def for_database(contents: Contents, candidates: Sequence[Candidate], say: Callable[[str], None]) -> Contents:
    """The journal that the database is made from: of a replay its best trial alone, for the records are kept,
    with the trace of the program that TVM makes of it. candidates: of all trials, in order. say: takes a note
    for the user, where TVM makes none today."""
    if not contents.header.replayed:
        return contents
    best = contents.best()
    if best is None:
        return replace(contents, trials=[])
    candidate = candidates[best.trial - 1]
    try:
        candidate.materialise()
    except RejectedError as error:
        say(f"TVM makes no program of the best trial today, so the database is empty: {error}")
        return replace(contents, trials=[])
    return replace(contents, trials=[replace(best, trace=trace_json(candidate))], confirmations=[])
