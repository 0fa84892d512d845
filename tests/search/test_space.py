"""The space against TVM: what it samples, changes and encodes are programs that stock MetaSchedule makes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
import tvm_ffi
from tvm import te
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm.script import tirx as T
from tvm.target import Target
from tvm.tirx import PrimFunc

from pruner.errors import ConfigError, UntunableError
from pruner.search import prepare as prepare_module
from pruner.search.analysis import SketchAnalysis, UnsupportedSketch
from pruner.search.materialise import tune_context
from pruner.search.nest import Nest
from pruner.search.population import UNUSED, Population
from pruner.search.sketch import CategoryGene, LocationGene, TileGene
from pruner.search.space import Space
from pruner.workload import load_task, make_task

TARGET = Target({"kind": "llvm", "num-cores": 2})
CUDA = Target("nvidia/nvidia-a100")
FAMILIES = ("C1D", "C2D", "C3D", "DEP", "DIL", "GRP", "GMM", "T2D", "CBR", "TBG", "NRM", "SFM")
ALL = [f"{family}/0" for family in FAMILIES]
SLOW = pytest.mark.slow
QUICK = ("GMM/0", "C2D/0", "SFM/0")
WORKLOADS = [workload if workload in QUICK else pytest.param(workload, marks=SLOW) for workload in ALL]


@cache
def _space(workload: str, target: Target = TARGET) -> Space:
    return Space.of(load_task(workload, target))


def _matmul(n: int, m: int, k: int, dtype: str = "float32") -> PrimFunc:
    a = te.placeholder((n, k), name="a", dtype=dtype)
    b = te.placeholder((k, m), name="b", dtype=dtype)
    r = te.reduce_axis((0, k), name="r")
    return te.create_prim_func(
        [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")]
    )


def _stock_schedules(space: Space, n: int) -> list[Schedule]:
    """Random schedules by TVM itself, n in all, before post-processing."""
    sketches = tune_context(space.task).generate_design_space()
    seeds = np.random.default_rng(7).integers(1, 2**31 - 1, size=n)
    schedules = []
    for i, seed in enumerate(seeds.tolist()):
        schedule = Schedule(space.task.mod, seed=seed)
        Trace(sketches[i % len(sketches)].trace.insts, {}).apply_to_schedule(schedule, remove_postproc=True)
        schedules.append(schedule)
    return schedules


def _post_processed(space: Space, schedule: Schedule) -> IRModule | None:
    schedule.enter_postproc()
    for postprocessor in tune_context(space.task).space_generator.postprocs:
        if not postprocessor.apply(schedule):
            return None
    return schedule.mod


def _check_rows(population: Population) -> None:
    """Every row of the population is a possible row of its sketch."""
    space = population.space
    for index, sketch in enumerate(space.sketches):
        rows = population.decisions[population.sketch_ids == index]
        assert (rows[:, sketch.width :] == UNUSED).all()
        for gene in sketch.genes:
            if isinstance(gene, TileGene):
                factors = rows[:, gene.start : gene.start + gene.parts]
                assert (factors >= 1).all()
                assert (factors.prod(axis=1) == gene.extent).all()
                assert (factors[:, -1] <= gene.max_innermost).all()
            elif isinstance(gene, CategoryGene):
                assert np.isin(rows[:, gene.start], range(len(gene.values))).all()
            else:
                assert (rows[:, gene.start] >= -2).all()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_sampled_mutated_and_crossed_rows_are_rows_of_the_space(workload: str) -> None:
    space = _space(workload)
    rng = np.random.default_rng(0)
    rows = space.sample(2_000, rng)
    assert len(rows) == 2_000
    assert set(rows.sketch_ids) == set(range(len(space.sketches)))
    mutated = space.mutate(rows, rng)
    crossed = space.crossover(rows, mutated[rng.permutation(len(mutated))], rng)
    for population in (rows, mutated, crossed):
        _check_rows(population)
    assert (mutated.decisions != rows.decisions).any(axis=1).mean() > 0.5
    assert (crossed.decisions != rows.decisions).any(axis=1).mean() > 0.2 / len(space.sketches)


def test_crossover_takes_every_gene_whole_from_one_parent() -> None:
    space = _space("GMM/0")
    rng = np.random.default_rng(3)
    mothers, fathers = space.sample(1_000, rng), space.sample(1_000, rng)
    children = space.crossover(mothers, fathers, rng)
    same = mothers.sketch_ids == fathers.sketch_ids
    assert (children.decisions[~same] == mothers.decisions[~same]).all()
    from_father = 0
    for gene in space.sketches[0].genes:
        columns = slice(gene.start, gene.start + (gene.parts if isinstance(gene, TileGene) else 1))
        mother = (children.decisions[same, columns] == mothers.decisions[same, columns]).all(axis=1)
        father = (children.decisions[same, columns] == fathers.decisions[same, columns]).all(axis=1)
        assert (mother | father).all()
        from_father += (father & ~mother).sum()
    assert from_father > 0.2 * same.sum() * len(space.sketches[0].genes)


def test_unique_keeps_the_first_of_equal_rows_in_order() -> None:
    space = _space("GMM/0")
    rows = space.sample(300, np.random.default_rng(0))
    doubled = Population.concat([rows, rows])[np.random.default_rng(1).permutation(600)]
    first: dict[bytes, int] = {}
    for i, key in enumerate(doubled.keys()):
        first.setdefault(key.tobytes(), i)
    kept = space.unique(doubled)
    assert [key.tobytes() for key in list(kept.keys())] == list(first)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_sampled_decisions_are_the_ones_tvm_uses(workload: str) -> None:
    """TVM repairs what it cannot do; of a resolved row there is nothing left to repair."""
    space = _space(workload)
    rows = space.sample(60, np.random.default_rng(5))
    for sketch_id, row in zip(rows.sketch_ids, rows.decisions, strict=True):
        sketch = space.sketches[sketch_id]
        replayed = space.materialiser.replay(sketch.decided(row)).trace
        assert sketch.row(replayed).tolist() == row[: sketch.width].tolist()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_stock_samples_survive_the_way_into_a_row_and_back(workload: str) -> None:
    _check_stock_samples(_space(workload), 90 if workload not in QUICK else 30)


@pytest.mark.parametrize("workload", [*QUICK, "CBR/0"])
def test_stock_samples_for_a_gpu_survive_too(workload: str) -> None:
    space = _space(workload, CUDA)
    assert all(space.supported)
    _check_stock_samples(space, 12)


def _check_stock_samples(space: Space, n: int) -> None:
    for schedule in _stock_schedules(space, n):
        before = schedule.mod
        row = space.encode(schedule.trace)
        replayed = space.materialiser.replay(space.sketches[row.sketch_ids[0]].decided(row.decisions[0]))
        assert tvm_ffi.structural_equal(replayed.mod, before)
        after = _post_processed(space, schedule)
        if after is not None:
            assert tvm_ffi.structural_equal(row[0].materialise().mod, after)
            again = space.encode(schedule.trace)  # post-processing is stripped
            assert again.keys()[0].tobytes() == row.keys()[0].tobytes()
        assert space.legal(row).all() == (after is not None)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_rows_survive_materialising_and_encoding(workload: str) -> None:
    space = _space(workload)
    rows = space.sample(90 if workload not in QUICK else 30, np.random.default_rng(11))
    rows = rows[space.legal(rows)]
    for i, candidate in enumerate(rows):
        assert space.encode(candidate.decided).keys()[0].tobytes() == rows.keys()[i].tobytes()


def test_a_record_of_a_database_is_encoded() -> None:
    space = _space("C2D/0")
    rows = space.sample(1, np.random.default_rng(0))
    database = ms.database.MemoryDatabase()
    workload = database.commit_workload(space.task.mod)
    record = ms.database.TuningRecord(rows[0].decided, workload, [1.0], space.task.target)
    text = json.dumps(record.as_json(), default=lambda boxed: boxed.value)
    read = ms.database.TuningRecord.from_json(json.loads(text), workload)
    assert space.encode(read.trace).keys()[0].tobytes() == rows.keys()[0].tobytes()


def test_decisions_that_do_not_fit_are_repaired_as_tvm_repairs_them() -> None:
    space = _space("C2D/0")
    sketch = space.sketches[0]
    rng = np.random.default_rng(2)
    for row in space.sample(60, rng).decisions:
        decisions = dict(sketch.decided(row).decisions.items())
        for gene in sketch.genes:
            if isinstance(gene, TileGene):
                decisions[gene.instruction] = rng.integers(1, 9, size=gene.parts).tolist()
            elif isinstance(gene, LocationGene):
                decisions[gene.instruction] = int(rng.integers(-2, 30))
        trace = Trace(list(sketch.trace.insts), decisions)
        schedule = Schedule(space.task.mod, seed=1)
        trace.apply_to_schedule(schedule, remove_postproc=True)
        encoded = space.encode(trace).decisions[0]
        assert encoded[: sketch.width].tolist() == sketch.row(schedule.trace).tolist()


def test_traces_of_another_program_and_undecided_ones_are_refused() -> None:
    space = _space("GMM/0")
    foreign = _space("C2D/0").sample(1, np.random.default_rng(0))[0].decided
    with pytest.raises(ConfigError, match="none of the 3 sketches of GMM/0"):
        space.encode(foreign)
    with pytest.raises(ConfigError, match="tile factors are needed"):
        space.encode(Trace(list(space.sketches[0].trace.insts), {}))
    decisions = dict(space.sketches[0].trace.decisions.items())
    tile = space.sketches[0].genes[0].instruction
    with pytest.raises(ConfigError, match="at least 1"):
        space.encode(Trace(list(space.sketches[0].trace.insts), {**decisions, tile: [1, 0, 1, 1]}))


def test_a_small_space_is_enumerated_with_every_program_tvm_samples() -> None:
    space = _space("NRM/0")
    rows = space.enumerate(int(space.size))
    assert space.enumerate(int(space.size) - 1) is None
    assert rows is not None
    _check_rows(rows)
    assert 0 < len(rows) <= space.size
    keys = [key.tobytes() for key in list(rows.keys())]
    assert len(set(keys)) == len(keys)
    assert {space.encode(s.trace).keys()[0].tobytes() for s in _stock_schedules(space, 90)} <= set(keys)


def test_every_row_has_one_nest() -> None:
    space = _space("SFM/0")
    rows = space.sample(500, np.random.default_rng(0))
    groups = list(space.nests(rows))
    assert sorted(np.concatenate([index for index, _ in groups]).tolist()) == list(range(500))
    assert all(nest.rows == len(index) for index, nest in groups)


def test_rows_of_a_sketch_that_arrays_cannot_express_go_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(SketchAnalysis):
        def __init__(self, mod: IRModule, sketch: object, target: Target) -> None:
            raise UnsupportedSketch("as a test")

    fast = _space("GMM/0")
    monkeypatch.setattr(prepare_module, "SketchAnalysis", Refusing)
    slow = Space.of(fast.task)
    assert slow.supported == (False, False, False)
    rows = slow.sample(20, np.random.default_rng(0))
    _check_rows(slow.mutate(rows, np.random.default_rng(0)))
    assert slow.legal(rows).all()
    expected: dict[int, list[int]] = {}
    for index, nest in fast.nests(Population(fast, rows.sketch_ids, rows.decisions)):
        for position, row in enumerate(index.tolist()):
            extents = [loop.extent for statement in nest.statements for loop in statement.loops]
            expected[row] = [int(e if isinstance(e, int) else e[position]) for e in extents]
    found = {
        int(index[0]): [loop.extent for statement in nest.statements for loop in statement.loops]
        for index, nest in slow.nests(rows)
    }
    assert found == expected
    assert slow.slow_rows == 20
    assert slow.encode(rows[3].decided).keys()[0].tobytes() == rows.keys()[3].tobytes()


def test_a_sketch_that_turns_out_inexpressible_goes_the_slow_way_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(SketchAnalysis):
        made = False

        def nests(self, decisions: np.ndarray) -> Iterator[tuple[np.ndarray, Nest]]:
            for turn, group in enumerate(super().nests(decisions)):
                if self.made and len(decisions) > 64 and turn == 1:
                    raise UnsupportedSketch("as a test")
                yield group

    monkeypatch.setattr(prepare_module, "SketchAnalysis", Late)
    space = Space.of(load_task("C1D/0", TARGET))
    assert all(space.supported)
    monkeypatch.setattr(Late, "made", True)
    rows = space.sample(400, np.random.default_rng(0))
    rows = rows[rows.sketch_ids == 0]
    assert len(rows) > 64
    assert sorted(np.concatenate([i for i, _ in space.nests(rows[:60])]).tolist()) == list(range(60))
    assert space.slow_rows == 0
    indices = [index for index, _ in space.nests(rows)]
    assert sorted(np.concatenate(indices).tolist()) == list(range(len(rows)))
    assert space.supported == (False, True, True)
    assert space.slow_rows == len(rows)


SAME_SEED = """
import hashlib
import numpy as np
from tvm.target import Target
from pruner.search.space import Space
from pruner.workload import load_task
space = Space.of(load_task("TBG/0", Target({"kind": "llvm", "num-cores": 2})))
for seed in (1, 2):
    rng = np.random.default_rng(seed)
    rows = space.mutate(space.crossover(space.sample(200, rng), space.sample(200, rng), rng), rng)
    print(hashlib.sha256(rows.keys().tobytes() + rows.hashes().tobytes()).hexdigest())
"""


def test_the_same_seed_gives_the_same_rows_in_two_processes() -> None:
    command = [sys.executable, "-c", SAME_SEED]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate()[0].split() for process in running)
    assert first == second
    assert len(set(first)) == 2


@T.prim_func
def without_blocks(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        y[i] = x[i]


def _elementwise(*shape: int, dtype: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, name="x", dtype=dtype)
    return te.create_prim_func([x, te.compute(shape, lambda *i: x(*i) + x(*i), name="y")])


def _constant(*shape: int) -> PrimFunc:
    x = te.placeholder(shape, name="x")
    return te.create_prim_func([x, te.compute(shape, lambda *i: T.float32(1.0), name="y")])


def _self_matmul() -> PrimFunc:
    x = te.placeholder((32, 32), name="x")
    r = te.reduce_axis((0, 32), name="r")
    return te.create_prim_func(
        [x, te.compute((32, 32), lambda i, j: te.sum(x[i, r] * x[r, j], axis=r), name="y")]
    )


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (_matmul(0, 8, 8), "zero times"),
        (_matmul(8, 8, 0), "zero times"),
        (_elementwise(0, 4), "zero times"),
        (_elementwise(1), "leave it as it is"),
        (without_blocks, "not written in blocks"),
    ],
)
def test_programs_without_a_choice_are_untunable(program: PrimFunc, said: str) -> None:
    with pytest.raises(UntunableError, match=said):
        Space.of(make_task(program, TARGET, "odd"))


def test_a_target_without_schedule_rules_is_one_message() -> None:
    with pytest.raises(ConfigError, match="no schedule rules"):
        Space.of(make_task(_elementwise(8), Target({"kind": "ext_dev"}), "odd"))


@pytest.mark.parametrize(
    "program",
    [
        _matmul(127, 131, 13),
        _matmul(1, 1, 1),
        _matmul(1, 1000, 64),
        _matmul(4, 4, 2048),
        _matmul(1, 1, 4096),
        _matmul(64, 64, 64, "uint8"),
        _matmul(64, 64, 64, "int32"),
        _self_matmul(),
        _constant(16, 16),
        _elementwise(64, 64),
        _elementwise(64, 64, dtype="uint8"),
    ],
)
def test_odd_programs_can_be_drawn_changed_and_materialised(program: PrimFunc) -> None:
    space = Space.of(make_task(program, TARGET, "odd"))
    rng = np.random.default_rng(0)
    rows = space.mutate(space.sample(10, rng), rng)
    _check_rows(rows)
    assert sum(len(index) for index, _ in space.nests(rows)) == 10
    for candidate in rows[space.legal(rows)]:
        assert space.encode(candidate.materialise().trace).keys()[0].tobytes() == candidate.key
