"""How TVM itself samples a design space: the initial population of its evolutionary search."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import tvm
from tvm.s_tir import meta_schedule as ms

from pruner._tvm import tune_context
from pruner.workload import Task

_SAMPLE = "s_tir.meta_schedule.SearchStrategyEvolutionarySearchSampleInitPopulation"
# Tries of one call: enough that the threads seldom wait for the last one of a call.
_TRIES = 64
_MAX_SEED = 2**31 - 1
# The time ends the sampling, not TVM's own budget.
_UNLIMITED = 2**30


@dataclass(frozen=True)
class Sampled:
    """What one sampling gave.

    tries: random candidates. valid: those that replay and that every post-processor accepts. seconds: of wall
    time.
    """

    tries: int
    valid: int
    seconds: float


def sample_valid(
    task: Task, *, valid: int, seconds: float, threads: int, rng: np.random.Generator
) -> Sampled:
    """Samples until there are `valid` candidates or the time is up, whichever is first.

    It is TVM's own C++ loop: a random sketch, random decisions, replay, post-processing, on `threads` threads
    that share the tries. Only the size of a call differs from its default (512 tries), so that sampling stops
    in time. The seed is a random one of 31 bits, as in TVM: small ones in a row are not independent.

    Args:
        seconds: of wall time after which no further call is made.
    """
    strategy = ms.search_strategy.EvolutionarySearch(init_min_unmeasured=1, max_fail_count=1)
    context = tune_context(
        task.target,
        mod=task.mod,
        space_generator="post-order-apply",
        search_strategy=strategy,
        task_name=task.name,
        num_threads=threads,
        rand_state=int(rng.integers(1, _MAX_SEED)),
    )
    context.pre_tuning(
        max_trials=_UNLIMITED,
        num_trials_per_iter=_TRIES,
        database=ms.database.MemoryDatabase(),
        cost_model=ms.cost_model.RandomModel(),
    )
    sample = tvm.get_global_func(_SAMPLE)
    tries = found = 0
    start = time.perf_counter()
    while found < valid and time.perf_counter() - start < seconds:
        found += len(sample(strategy, _TRIES))
        tries += _TRIES
    return Sampled(tries, found, time.perf_counter() - start)
