"""The space against TVM: what it samples, changes and encodes are programs that stock MetaSchedule makes."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tvm_ffi
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from pruner.errors import ConfigError
from pruner.search.materialise import tune_context
from pruner.search.population import Population
from pruner.search.sketch import LocationGene, TileGene
from pruner.search.space import Space
from tests.search.space_util import check_rows, space_of

CUDA = Target("nvidia/nvidia-a100")
FAMILIES = ("C1D", "C2D", "C3D", "DEP", "DIL", "GRP", "GMM", "T2D", "CBR", "TBG", "NRM", "SFM")
ALL = [f"{family}/0" for family in FAMILIES]
SLOW = pytest.mark.slow
QUICK = ("GMM/0", "C2D/0", "SFM/0")
WORKLOADS = [workload if workload in QUICK else pytest.param(workload, marks=SLOW) for workload in ALL]


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


@pytest.mark.parametrize("workload", WORKLOADS)
def test_sampled_mutated_and_crossed_rows_are_rows_of_the_space(workload: str) -> None:
    space = space_of(workload)
    rng = np.random.default_rng(0)
    rows = space.sample(2_000, rng)
    assert len(rows) == 2_000
    assert set(rows.sketch_ids) == set(range(len(space.sketches)))
    mutated = space.mutate(rows, rng)
    crossed = space.crossover(rows, mutated[rng.permutation(len(mutated))], rng)
    for population in (rows, mutated, crossed):
        check_rows(population)
    assert (mutated.decisions != rows.decisions).any(axis=1).mean() > 0.5
    assert (crossed.decisions != rows.decisions).any(axis=1).mean() > 0.2 / len(space.sketches)


def test_crossover_takes_every_gene_whole_from_one_parent() -> None:
    space = space_of("GMM/0")
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
    space = space_of("GMM/0")
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
    space = space_of(workload)
    rows = space.sample(60, np.random.default_rng(5))
    for sketch_id, row in zip(rows.sketch_ids, rows.decisions, strict=True):
        sketch = space.sketches[sketch_id]
        replayed = space.materialiser.replay(sketch.decided(row)).trace
        assert sketch.row(replayed).tolist() == row[: sketch.width].tolist()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_stock_samples_survive_the_way_into_a_row_and_back(workload: str) -> None:
    _check_stock_samples(space_of(workload), 90 if workload not in QUICK else 30)


@pytest.mark.parametrize("workload", [*QUICK, "CBR/0"])
def test_stock_samples_for_a_gpu_survive_too(workload: str) -> None:
    space = space_of(workload, CUDA)
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
    space = space_of(workload)
    rows = space.sample(90 if workload not in QUICK else 30, np.random.default_rng(11))
    rows = rows[space.legal(rows)]
    for i, candidate in enumerate(rows):
        assert space.encode(candidate.decided).keys()[0].tobytes() == rows.keys()[i].tobytes()


def test_a_record_of_a_database_is_encoded() -> None:
    space = space_of("C2D/0")
    rows = space.sample(1, np.random.default_rng(0))
    database = ms.database.MemoryDatabase()
    workload = database.commit_workload(space.task.mod)
    record = ms.database.TuningRecord(rows[0].decided, workload, [1.0], space.task.target)
    text = json.dumps(record.as_json(), default=lambda boxed: boxed.value)
    read = ms.database.TuningRecord.from_json(json.loads(text), workload)
    assert space.encode(read.trace).keys()[0].tobytes() == rows.keys()[0].tobytes()


def test_decisions_that_do_not_fit_are_repaired_as_tvm_repairs_them() -> None:
    space = space_of("C2D/0")
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
    space = space_of("GMM/0")
    foreign = space_of("C2D/0").sample(1, np.random.default_rng(0))[0].decided
    with pytest.raises(ConfigError, match="none of the 3 sketches of GMM/0"):
        space.encode(foreign)
    with pytest.raises(ConfigError, match="tile factors are needed"):
        space.encode(Trace(list(space.sketches[0].trace.insts), {}))
    decisions = dict(space.sketches[0].trace.decisions.items())
    tile = space.sketches[0].genes[0].instruction
    with pytest.raises(ConfigError, match="at least 1"):
        space.encode(Trace(list(space.sketches[0].trace.insts), {**decisions, tile: [1, 0, 1, 1]}))


def test_a_small_space_is_enumerated_with_every_program_tvm_samples() -> None:
    space = space_of("NRM/0")
    rows = space.enumerate(int(space.size))
    assert space.enumerate(int(space.size) - 1) is None
    assert rows is not None
    check_rows(rows)
    assert 0 < len(rows) <= space.size
    keys = [key.tobytes() for key in list(rows.keys())]
    assert len(set(keys)) == len(keys)
    assert {space.encode(s.trace).keys()[0].tobytes() for s in _stock_schedules(space, 90)} <= set(keys)


def test_every_row_has_one_nest() -> None:
    space = space_of("SFM/0")
    rows = space.sample(500, np.random.default_rng(0))
    groups = list(space.nests(rows))
    assert sorted(np.concatenate([index for index, _ in groups]).tolist()) == list(range(500))
    assert all(nest.rows == len(index) for index, nest in groups)


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
