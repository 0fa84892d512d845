"""Makes the folder that a GPU machine without TVM needs: compiled candidates, and how to run and check
them."""

from __future__ import annotations

import inspect
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import zip_longest
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.target import Target

from pruner.analyzer.device import Device
from pruner.analyzer.draft import DraftModel
from pruner.analyzer.symbol import SymbolDraft
from pruner.cores import usable_cpus
from pruner.costmodel.xgb import XGBVerifier
from pruner.errors import CompileError, ConfigError, DeviceError
from pruner.files import write_whole
from pruner.measure.compare import relative_tolerance
from pruner.measure.cuda import generate
from pruner.measure.nvcc import Compiled, check_arch, compile_generated
from pruner.measure.program import arguments_of, reduction_length, written_arguments, written_dtypes
from pruner.records.database import plain
from pruner.records.versions import versions
from pruner.search.candidate import RowCandidate
from pruner.search.latent import LatentSearch
from pruner.search.population import Population
from pruner.search.random import RandomSearch
from pruner.search.space import Space
from pruner.settings import whole
from pruner.target import arch_of
from pruner.workload import Task, load_task
from tools.gpu_run.records import FORMAT, MANIFEST, RECORDS, identity_of
from tools.gpu_run.reference import REFERENCES

# A matrix product, a convolution, a depthwise one, a softmax of several kernels, a fused epilogue: each large
# enough to keep a GPU busy, and computed by NumPy in a second.
WORKLOADS = ("GMM/2", "C2D/2", "DEP/1", "SFM/2", "CBR/1")
LARGEST_MB = 50
PROGRAMS = "programs"
_PROGRESS = 50


@dataclass(frozen=True)
class Settings:
    """arch: what nvcc compiles for, by default the device's own; candidates: of each arm, a workload."""

    device: str = "h200"
    arch: str | None = None
    workloads: tuple[str, ...] = WORKLOADS
    candidates: int = 32
    seed: int = 0


@dataclass(frozen=True)
class Chosen:
    """A program that will be tried. predicted_s: None where the draft says that it does not fit."""

    task: int
    arm: str
    candidate: RowCandidate
    predicted_s: float | None


def prepare(folder: Path, settings: Settings, say: Callable[[str], None]) -> None:
    """Writes the folder anew. Raises ConfigError for settings that cannot be used, for a folder that holds
    records or other things, and for one that became too large; DeviceError where there is no nvcc."""
    whole(1, candidates=settings.candidates)
    whole(0, seed=settings.seed)
    device = Device.load(settings.device)
    if device.kind != "gpu":
        raise DeviceError(f"--device {device.name} is a CPU: choose one of the declared GPUs.")
    arch = str(arch_of({**device.target, "arch": settings.arch or device.target["arch"]}))
    check_arch(arch)
    target = Target({**device.target, "arch": arch})
    tasks = [_task(workload, target) for workload in dict.fromkeys(settings.workloads)]
    _clear(folder)
    described: list[dict[str, Any]] = []
    chosen: list[Chosen] = []
    for number, task in enumerate(tasks):
        say(f"{task.name}: drafting")
        space = Space.of(task)
        described.append(_describe(task, space))
        chosen += _choose(number, space, SymbolDraft(device=device), settings)
    say(f"compiling {len(chosen)} programs")
    programs = list(_programs(_interleaved(chosen), arch, folder, say))
    body = {
        "format": FORMAT,
        "device": device.name,
        "arch": arch,
        "draft": "symbol",
        "seed": settings.seed,
        "versions": versions("cuda"),
        "tasks": described,
        "programs": programs,
    }
    # Read back, as whoever compares the identity has it: a tuple is a list there.
    body = json.loads(json.dumps(body, allow_nan=False))
    # Last: a folder without it was not finished.
    write_whole(folder / MANIFEST, json.dumps({"id": identity_of(body), **body}, indent=1))
    failed = sum(program["failure"] is not None for program in programs)
    say(f"{folder}: {len(programs) - failed} programs for {arch}, {failed} did not compile")
    say(f"{_megabytes(folder):.1f} MB")


def _megabytes(folder: Path) -> float:
    """Raises ConfigError for a folder that is too large to be carried."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    if size > LARGEST_MB:
        raise ConfigError(f"{folder} has {size:.0f} MB, above {LARGEST_MB}: give fewer --candidates.")
    return size


def _clear(folder: Path) -> None:
    """Removes what an earlier call made, and nothing else; puts there what runs the programs."""
    package = Path(__file__).parent / "gpu_run"
    if (folder / RECORDS).exists():
        raise ConfigError(
            f"{folder} holds the records of a run, which would lose their programs: import them and remove "
            "the folder first."
        )
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / package.name).is_dir():
            raise ConfigError(f"{folder} holds other things: give a new folder.")
        shutil.rmtree(folder, ignore_errors=True)
        (folder / PROGRAMS).mkdir(parents=True)
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {error.strerror}. Give another folder.") from error


def _task(workload: str, target: Target) -> Task:
    """Raises ConfigError for a workload whose output cannot be checked there."""
    task = load_task(workload, target)
    if workload.split("/")[0] not in REFERENCES or ".py" in workload:
        raise ConfigError(
            f"--workloads {workload}: there is no NumPy reference of it; there is one of "
            f"{', '.join(REFERENCES)}, each with an index (GMM/2)."
        )
    return task


def _describe(task: Task, space: Space) -> dict[str, Any]:
    """What the other side must know of a task. seed: of an input's random numbers, null for an output."""
    function = task.mod["main"]
    family, index = task.name.split("/")
    make, shapes = te_workload.CONFIGS[family]
    sizes = inspect.signature(make).bind(*shapes[int(index)])
    sizes.apply_defaults()
    written = written_arguments(function)
    return {
        "name": task.name,
        "operator": family,
        "sizes": dict(sizes.arguments),
        "target": plain(task.target.export()),
        "arguments": [
            {"shape": argument.shape, "dtype": argument.dtype, "seed": None if i in written else i}
            for i, argument in enumerate(arguments_of(task.mod))
        ],
        "output": written[0],
        "tolerance": relative_tolerance(written_dtypes(function), reduction_length(function)),
        "sketches": [sketch.signature for sketch in space.sketches],
    }


def _choose(number: int, space: Space, draft: DraftModel, settings: Settings) -> Iterator[Chosen]:
    """The draft's best, as the tuner would propose them before it has measured anything; then random ones."""
    for arm, search in (("draft", LatentSearch(epsilon=0.0)), ("random", RandomSearch())):
        rng = np.random.default_rng([settings.seed, number, arm == "random"])
        session = search.start(space, draft=draft, verifier=XGBVerifier(), pool=None, rng=rng)
        found = [c for c in session.propose(settings.candidates) if isinstance(c, RowCandidate)]
        if not found:
            continue
        sketch_ids = np.array([candidate.sketch_id for candidate in found], dtype=np.int64)
        rows = Population(space, sketch_ids, np.stack([candidate.row for candidate in found]))
        for candidate, score in zip(found, draft.score(rows).tolist(), strict=True):
            yield Chosen(number, arm, candidate, score if isfinite(score) else None)


def _interleaved(chosen: Sequence[Chosen]) -> list[Chosen]:
    """Of every task and arm the first, then the second, ...: a run that is cut off has some of each."""
    arms: dict[tuple[int, str], list[Chosen]] = {}
    for each in chosen:
        arms.setdefault((each.task, each.arm), []).append(each)
    return [each for turn in zip_longest(*arms.values()) for each in turn if each is not None]


def _programs(
    chosen: Sequence[Chosen], arch: str, folder: Path, say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    """Compiles them and writes the machine code; yields what the other side must know of each."""
    with ThreadPoolExecutor(len(usable_cpus())) as pool:
        try:
            for number, (each, built) in enumerate(
                zip(chosen, pool.map(partial(_build, arch), chosen), strict=True)
            ):
                compiled, seconds, message = built
                cubin = f"{PROGRAMS}/{number:04d}.cubin"
                known = {
                    "task": each.task,
                    "arm": each.arm,
                    "sketch": each.candidate.sketch_id,
                    "row": each.candidate.row.tolist(),
                    "predicted_s": each.predicted_s,
                    "build_s": seconds,
                }
                if compiled is None:
                    yield {**known, "failure": "build", "message": message}
                else:
                    (folder / cubin).write_bytes(compiled.cubin)
                    yield {**known, "failure": None, "message": "", "cubin": cubin, **_launches(compiled)}
                if (number + 1) % _PROGRESS == 0:
                    say(f"{number + 1} of {len(chosen)} compiled")
        finally:  # of those that wait none is begun when this is interrupted
            pool.shutdown(cancel_futures=True)


def _build(arch: str, chosen: Chosen) -> tuple[Compiled | None, float, str]:
    """The compiled program, seconds that it took, and why there is none."""
    start = time.perf_counter()
    try:
        generated = generate(chosen.candidate.materialise().mod, chosen.candidate.space.task.target)
        return compile_generated(generated, arch), time.perf_counter() - start, ""
    except CompileError as error:
        return None, time.perf_counter() - start, str(error)


def _launches(compiled: Compiled) -> dict[str, Any]:
    """workspaces: the buffers between kernels. Of a kernel, arguments: positions among the task's arguments
    and then the workspaces."""
    generated = compiled.generated
    return {
        "workspaces": [asdict(argument) for argument in generated.buffers[generated.parameters :]],
        "kernels": [{**asdict(kernel.launch), **asdict(kernel.resources)} for kernel in compiled.kernels],
    }
