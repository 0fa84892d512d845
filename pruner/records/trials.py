"""What a run journals of the candidates that it measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from pruner.measure.measurement import Measurement
from pruner.records.database import trace_json
from pruner.records.journal import Trial
from pruner.search.candidate import Candidate


def trials_of(
    candidates: Sequence[Candidate],
    measurements: Sequence[Measurement],
    predicted: Sequence[float | None],
    number: int,
    first: int,
    elapsed_s: float,
) -> list[Trial]:
    """A trial a candidate. predicted: the draft's seconds of each. number: of the round. first: the number of
    the first trial. elapsed_s: since the run began."""
    return [
        Trial(
            trial=i,
            round=number,
            key=candidate.key.hex(),
            trace=trace_json(candidate),
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
