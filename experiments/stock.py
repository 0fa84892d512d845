"""An arm's process: TVM's own tuner with everything of TVM's, read back as a journal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.tuning import end_with_parent

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from experiments.retime import Bench
    from pruner.records.journal import Header, Trial
    from pruner.workload import Task

# LocalBuilder makes new workers for every batch, and each imports TVM's tensor intrinsics within this time:
# with TVM's own 30 s a slow import is taken for a program that does not compile.
BUILD_TIMEOUT_S = 300.0

# What TVM's profiler calls our stages, by the beginning of the name; the first that fits counts, the rest of
# the time is `other`.
_STAGES = {
    "EvoSearch/Evolve/PredictNormalizedScore": "predict",
    "EvoSearch": "draft",
    "SendToBuilder": "build",
    "SendToRunner": "run",
    "JoinRunnerFutures": "run",
    "MeasureCallback/UpdateCostModel": "fit",
}

# Schedule, builder's result, runner's result, and seconds since the start.
Row = tuple[Any, Any, Any, float]


def main(launched: str, *overrides: str) -> None:
    """Tunes the settings' workload with `tune_tir` at its defaults, with their target, trials and seed; the
    other settings are not used. launched: see `experiments.tuning`."""
    end_with_parent()
    from pruner.config import compose
    from pruner.errors import PrunerError

    try:
        _tune(compose(overrides), float(launched))
    except PrunerError as error:
        sys.exit(f"{error}")


def _tune(cfg: DictConfig, start: float) -> None:
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    from experiments.retime import Bench

    bench = Bench.of(cfg)
    task = bench.task
    rows: list[Row] = []

    @derived_object
    class Recording(ms.measure_callback.PyMeasureCallback):
        """Only remembers, so that TVM's clock is not charged with our bookkeeping."""

        def apply(
            self, scheduler: object, task_id: int, candidates: Any, built: Sequence[Any], ran: Sequence[Any]
        ) -> None:
            elapsed = time.perf_counter() - start
            rows.extend((c.sch, b, r, elapsed) for c, b, r in zip(candidates, built, ran, strict=True))

    folder = Path(cfg.work_dir)
    with ms.Profiler() as profiler:
        ms.tune_tir(
            task.mod,
            task.target,
            str(folder / "tvm"),
            cfg.trials,
            builder=ms.builder.LocalBuilder(
                max_workers=ms.utils.cpu_count(logical=False), timeout_sec=BUILD_TIMEOUT_S
            ),
            # Ours first: it sees the time before the model learns, as the journal of our own loop does.
            measure_callbacks=[Recording(), *ms.measure_callback.MeasureCallback.create("default")],
            seed=cfg.seed,
        )
    total = time.perf_counter() - start
    spent = {str(name): float(seconds) for name, seconds in profiler.get().items()}
    _write(
        folder,
        _header(cfg, bench),
        [_trial(i, task, row) for i, row in enumerate(rows, 1)],
        cfg.trials,
        by_stage(spent, total),
    )


def by_stage(profiled: dict[str, float], total: float) -> dict[str, float]:
    """Seconds by stage and their total, from those that TVM's profiler counted by scope."""
    from pruner.measure.clock import STAGES

    seconds = dict.fromkeys(STAGES, 0.0)
    for name, spent in profiled.items():
        stage = next((stage for prefix, stage in _STAGES.items() if name.startswith(prefix)), None)
        if stage is not None:
            seconds[stage] += spent
    seconds["other"] = total - sum(seconds.values())
    return {**seconds, "total": total}


def _header(cfg: DictConfig, bench: Bench) -> Header:
    import tvm
    from tvm.s_tir.meta_schedule.utils import shash2hex

    from pruner.records.database import plain
    from pruner.records.journal import Header
    from pruner.records.versions import versions

    return Header(
        workload=bench.task.name,
        workload_hash=shash2hex(bench.task.mod),
        target=plain(bench.task.target.export()),
        device=bench.device.name,
        fingerprint=bench.device.fingerprint,
        threads=bench.threads,
        runtime_threads=int(tvm.runtime.num_threads()),
        seed=cfg.seed,
        settings={"trials": cfg.trials},
        versions=versions(bench.task.target.kind.name),
    )


def _trial(number: int, task: Task, row: Row) -> Trial:
    from pruner.measure.cause import root_cause
    from pruner.records.database import trace_json
    from pruner.records.journal import Trial
    from pruner.search.candidate import TraceCandidate

    schedule, built, ran, elapsed = row
    candidate = TraceCandidate.of(task, schedule)
    message = built.error_msg or ran.error_msg
    failure = None
    if message is not None:
        stage = "build" if built.error_msg is not None else "run"
        failure = "timeout" if "imeout" in str(message) else stage
    runs = [float(seconds) for seconds in ran.run_secs or ()]
    return Trial(
        trial=number,
        round=0,
        key=candidate.key.hex(),
        trace=trace_json(candidate),
        # TVM's database ranks by the mean.
        latency_s=sum(runs) / len(runs) if failure is None and runs else None,
        spread_s=None,
        build_s=0.0,
        run_s=0.0,
        failure=failure,
        message=root_cause(str(message or "")),
        elapsed_s=elapsed,
    )


def _write(folder: Path, header: Header, trials: list[Trial], asked: int, seconds: dict[str, float]) -> None:
    from pruner.records.journal import End, Journal
    from pruner.report import Summary

    valid = [trial for trial in trials if trial.latency_s is not None]
    best = min(valid, key=lambda trial: trial.latency_s or 0.0).trial if valid else None
    journal = Journal.create(folder, header)
    journal.append(*trials, End(best, "budget" if len(trials) >= asked else "exhausted"))
    summary = Summary.of(
        journal.contents, correct=None, candidates={"measured": len(trials)}, seconds=seconds
    )
    summary.write(folder)
