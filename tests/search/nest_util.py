"""Random decided candidates of a module's sketches, and their comparison with materialised programs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload
from tvm.s_tir.schedule import Trace

from pruner._tvm import fast_intrinsics
from pruner.search.analysis import SketchAnalysis
from pruner.search.nest import Access, Loop, Nest
from pruner.search.sketch import CategoryGene, Gene, LocationGene, Sketch, TileGene
from pruner.search.tir_reader import read_nest

TARGET = tvm.target.Target({"kind": "llvm", "num-cores": 2})
CUDA = tvm.target.Target("nvidia/nvidia-a100")
DEEPEST = 24  # more loops than any consumer of the test programs has


def context(func: object, target: tvm.target.Target) -> ms.TuneContext:
    fast_intrinsics()
    return ms.TuneContext(
        mod=func, target=target, space_generator="post-order-apply", num_threads=1, rand_state=1
    )


def workload(name: str, target: tvm.target.Target = TARGET) -> ms.TuneContext:
    """`C2D/0` and the like."""
    family, index = name.split("/")
    return context(create_te_workload(family, int(index)), target)


def computed(*tensors: te.Tensor, target: tvm.target.Target = TARGET) -> ms.TuneContext:
    return context(te.create_prim_func(list(tensors)), target)


def make_sketch(schedule: Schedule) -> Sketch:
    genes: list[Gene] = []
    start = 0
    trace = schedule.trace
    for instruction in trace.insts:
        kind = instruction.kind.name
        if kind == "SamplePerfectTile":
            factors = [int(f) for f in trace.decisions[instruction]]
            extent = int(np.prod(factors))
            genes.append(TileGene(instruction, start, len(factors), extent, int(instruction.attrs[1])))
            start += len(factors)
        elif kind == "SampleCategorical":
            values = tuple(int(v) for v in instruction.attrs[0])
            genes.append(CategoryGene(instruction, start, values, (1 / len(values),) * len(values)))
            start += 1
        elif kind == "SampleComputeLocation":
            genes.append(LocationGene(instruction, start))
            start += 1
    return Sketch(trace, tuple(genes))


def sketches(tuned: ms.TuneContext) -> list[Sketch]:
    return [make_sketch(schedule) for schedule in tuned.generate_design_space()]


def analyses(tuned: ms.TuneContext) -> Iterator[tuple[Sketch, SketchAnalysis]]:
    for sketch in sketches(tuned):
        yield sketch, SketchAnalysis(tuned.mod, sketch, tuned.target)


def random_factors(extent: int, parts: int, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Each prime factor goes to a random part."""
    table = np.ones((n, parts), dtype=np.int64)
    prime = 2
    while extent > 1:
        while extent % prime == 0:
            table[np.arange(n), rng.integers(parts, size=n)] *= prime
            extent //= prime
        prime += 1
    return table


def random_rows(sketch: Sketch, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Unresolved decisions."""
    rows = np.zeros((n, sketch.width), dtype=np.int64)
    for gene in sketch.genes:
        if isinstance(gene, TileGene):
            rows[:, gene.start : gene.start + gene.parts] = random_factors(gene.extent, gene.parts, n, rng)
        elif isinstance(gene, CategoryGene):
            rows[:, gene.start] = rng.integers(len(gene.values), size=n)
        else:
            rows[:, gene.start] = rng.integers(-3, DEEPEST, size=n)
    return rows


def replay(tuned: ms.TuneContext, sketch: Sketch, row: NDArray[np.int64]) -> Schedule:
    """The schedule before post-processing."""
    decisions: dict[object, object] = {}
    for gene in sketch.genes:
        if isinstance(gene, TileGene):
            decisions[gene.instruction] = [int(f) for f in row[gene.start : gene.start + gene.parts]]
        else:
            decisions[gene.instruction] = int(row[gene.start])
    schedule = Schedule(tuned.mod, seed=1)
    Trace(list(sketch.trace.insts), decisions).apply_to_schedule(schedule, remove_postproc=True)
    return schedule


def chosen(sketch: Sketch, schedule: Schedule) -> list[int]:
    """The locations TVM took, in order of the genes."""
    kinds = [i.kind.name == "SampleComputeLocation" for i in schedule.trace.insts]
    found = [i for i, is_location in zip(schedule.trace.insts, kinds, strict=True) if is_location]
    return [int(schedule.trace.decisions[i]) for i in found]


def postprocess(tuned: ms.TuneContext, schedule: Schedule) -> str:
    """The post-processor that refuses the schedule, or nothing."""
    schedule.enter_postproc()
    for step in tuned.space_generator.postprocs:
        if not step.apply(schedule):
            return type(step).__name__
    return ""


def _at(value: object, row: int) -> int:
    return int(value[row]) if isinstance(value, np.ndarray) else int(value)  # type: ignore[call-overload]


def _dims(access: Access, row: int) -> list[int]:
    return [_at(dim, row) for dim in access.buffer.shape]


def same_nest(nest: Nest, row: int, truth: Nest) -> None:
    """Row `row` of a nest equals the one-row reference. Coefficients of unit loops do not count."""
    assert [s.name for s in nest.statements] == [s.name for s in truth.statements]
    assert (nest.parallel, nest.vectorize, _at(nest.unroll, row)) == (
        truth.parallel,
        truth.vectorize,
        truth.unroll,
    )
    paired: dict[Loop, Loop] = {}
    for mine, real in zip(nest.statements, truth.statements, strict=True):
        where = f"{mine.name}"
        extents = [_at(loop.extent, row) for loop in mine.loops]
        assert extents == [loop.extent for loop in real.loops], (
            where,
            extents,
            [x.extent for x in real.loops],
        )
        assert [(a.kind, a.annotations) for a in mine.loops] == [(b.kind, b.annotations) for b in real.loops]
        assert _at(mine.fetch, row) == real.fetch, where
        for a, b in zip(mine.loops, real.loops, strict=True):
            assert paired.setdefault(a, b) is b, f"{where}: loops are shared differently"
        moving = [(a, b) for a, b in zip(mine.loops, real.loops, strict=True) if b.extent != 1]
        assert [a in mine.reduces for a, _ in moving] == [b in real.reduces for _, b in moving], where
        assert dict(mine.ops) == dict(real.ops), (where, mine.ops, real.ops)
        assert (mine.dtype, mine.has_init) == (real.dtype, real.has_init), where
        assert _at(mine.instances, row) == real.instances, where
        for ours, theirs in ((mine.reads, real.reads), (mine.writes, real.writes)):

            def key(access: Access) -> str:
                return access.buffer.name.replace(".", "_")

            assert sorted(map(key, ours)) == sorted(map(key, theirs)), where
            for x in ours:
                candidates = [y for y in theirs if key(y) == key(x)]
                errors = [e for y in candidates if (e := _same_access(x, y, row, mine.loops, real.loops))]
                assert len(errors) < len(candidates), (where, x.buffer.name, extents, errors)
    assert len(set(paired.values())) == len(paired), "loops are shared differently"


def _same_access(x: Access, y: Access, row: int, mine: tuple[Loop, ...], real: tuple[Loop, ...]) -> str:
    if _dims(x, row) != list(y.buffer.shape):
        return f"shape {_dims(x, row)} for {y.buffer.shape}"
    if any(
        getattr(x.buffer, of) != getattr(y.buffer, of) for of in ("dtype", "itemsize", "scope", "argument")
    ):
        return "another buffer"
    for a, b in zip(mine, real, strict=True):
        if b.extent != 1 and _at(x.stride(a), row) != y.stride(b):
            return f"stride of {b.name}: {_at(x.stride(a), row)} for {y.stride(b)}"
        if b.extent != 1 and x.indexed_by(a) is False and y.indexed_by(b):
            return f"{b.name} does not move it"
    for i in range(len(mine) + 1):
        widths = [_at(w, row) for w in x.widths(mine[i:])]
        if widths != list(y.widths(real[i:])):
            return f"widths below {i}: {widths} for {y.widths(real[i:])}"
    return ""


def check(
    tuned: ms.TuneContext, sketch: Sketch, analysis: SketchAnalysis, n: int, rng: np.random.Generator
) -> dict[str, int]:
    """Resolved locations, nests and legality of n random rows equal TVM's; returns counts."""
    rows = random_rows(sketch, n, rng)
    resolved = analysis.resolve(rows)
    passes = analysis.accepts(resolved)
    constant = analysis.legal(resolved)["dynamic_loop"]
    columns = [g.start for g in sketch.genes if isinstance(g, LocationGene)]
    count = {"legal": 0, "rejected": 0, "groups": 0}
    seen: list[int] = []
    for members, nest in analysis.nests(resolved):
        count["groups"] += 1
        seen.extend(members.tolist())
        assert nest.rows == len(members)
        for i, row in enumerate(members.tolist()):
            schedule = replay(tuned, sketch, rows[row])
            assert resolved[row, columns].tolist() == chosen(sketch, schedule), (
                rows[row].tolist(),
                resolved[row].tolist(),
                chosen(sketch, schedule),
            )
            if constant[row]:
                same_nest(nest, i, read_nest(schedule))
            refusal = postprocess(tuned, schedule)
            assert (refusal == "") == passes[row], (resolved[row].tolist(), refusal)
            count["legal" if passes[row] else "rejected"] += 1
    assert sorted(seen) == list(range(n))
    return count
