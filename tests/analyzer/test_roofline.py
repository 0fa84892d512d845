"""The terms of the CPU formula on chosen tiles of a matrix product."""

import dataclasses

import numpy as np
import pytest
from tvm import te
from tvm.target import Target

from pruner.analyzer.cpu_roofline import Costs
from pruner.analyzer.inspection import Inspection, inspect
from pruner.analyzer.roofline import RooflineDraft
from pruner.search.population import UNUSED, Population
from pruner.search.space import Space
from pruner.workload import make_task
from tests.analyzer.analyzer_util import DEVICE, space
from tests.analyzer.gemm_relu import N, tiled


def product(row: Population) -> Inspection:
    (found,) = (s for s in inspect(row.space.nests(row), DEVICE) if s.batch.statement.name == "C")
    return found


def seconds(row: Population, device: object = DEVICE) -> float:
    return float(RooflineDraft(device=device).score(row)[0])  # type: ignore[arg-type]


def test_without_penalties_a_program_runs_at_the_peak() -> None:
    row = tiled([2, 4, 4, 4], [4, 2, 2, 8], [16, 8])
    draft = RooflineDraft(device=DEVICE, penalties="none")
    assert draft.terms(product(row)).total[0] == pytest.approx(2 * N**3 / DEVICE.peak["float32"])


def test_a_full_register_tile_is_close_to_the_peak_and_a_scalar_one_is_not() -> None:
    draft = RooflineDraft(device=DEVICE)
    peak = 2 * N**3 / DEVICE.peak["float32"]
    good = draft.terms(product(tiled([4, 8, 1, 4], [2, 4, 1, 16], [128, 1])))
    scalar = draft.terms(product(tiled([4, 8, 1, 4], [2, 4, 16, 1], [2, 64])))
    assert peak < good.core[0] < 2 * peak
    assert scalar.core[0] > 4 * good.core[0]


def test_the_vector_is_tvms_loop_or_one_llvm_finds() -> None:
    lanes = {}
    # j_3 is the vector; j_3 = 1 and everything inside j_2 unrolled; too much inside j_2 to unroll.
    for name, i, j, k in [
        ("tvm", [4, 8, 1, 4], [2, 4, 2, 8], [128, 1]),
        ("llvm", [4, 8, 1, 4], [2, 4, 16, 1], [128, 1]),
        ("none", [4, 1, 1, 32], [2, 4, 16, 1], [2, 64]),
    ]:
        tile = product(tiled(i, j, k)).tile
        lanes[name] = (float(tile.lanes[0]), bool(tile.own[0]))
    assert lanes == {"tvm": (8.0, False), "llvm": (8.0, True), "none": (1.0, False)}


def test_accumulators_stay_in_registers_when_the_loops_between_are_unrolled() -> None:
    kept = product(tiled([4, 8, 1, 4], [2, 4, 1, 16], [128, 1])).tile
    assert kept.promoted[0]
    assert kept.tile[0] == 8
    assert kept.kept[0] == 128
    # A level-2 tile that is too large to unroll stores its accumulators at every step.
    spilled = product(tiled([1, 1, 32, 4], [1, 1, 8, 16], [128, 1])).tile
    assert not spilled.promoted[0]
    assert spilled.kept[0] == 1


def test_operands_that_a_later_turn_needs_again_take_registers() -> None:
    # Straight-line code of two turns along j, each 4 rows, one vector, some steps of k: both read the same
    # 4 elements a step of the first operand; of 16 registers, 13 hold values.
    for steps, needed in ((2, 0), (4, 16 - 13), (8, 32 - 13)):
        tile = product(tiled([4, 8, 1, 4], [2, 4, 2, 8], [128 // steps, steps], unroll=3)).tile
        assert tile.unrolled[2, 0]
        assert tile.reloaded[0] == pytest.approx(needed / (2 * 4 * steps))


def test_imbalance_and_launch_depend_on_the_cores() -> None:
    one = tiled([1, 1, 32, 4], [1, 1, 16, 8], [16, 8])
    two = tiled([2, 1, 16, 4], [1, 1, 16, 8], [16, 8])
    draft = RooflineDraft(device=DEVICE)
    assert draft.terms(product(one)).share[0] == 1.0
    assert draft.terms(product(two)).share[0] == 0.5
    assert draft.launches(product(one))[0] == 0.0
    assert draft.launches(product(two))[0] == DEVICE.launch
    single = dataclasses.replace(DEVICE, cores=1)
    assert RooflineDraft(device=single).terms(product(two)).share[0] == 1.0


def test_a_smaller_cache_never_makes_a_program_faster() -> None:
    rows = tiled([1, 1, 2, 64], [1, 1, 2, 64], [2, 64])
    small = tuple(dataclasses.replace(level, capacity=level.capacity // 16) for level in DEVICE.levels)
    assert seconds(rows, dataclasses.replace(DEVICE, levels=small)) > seconds(rows)


def test_relu_in_a_nest_of_its_own_costs_a_launch() -> None:
    tiles = ([2, 4, 4, 4], [4, 2, 2, 8], [16, 8])
    draft = RooflineDraft(device=DEVICE)
    launches = []
    for sketch in (0, 1):
        row = tiled(*tiles, sketch=sketch)
        found = inspect(row.space.nests(row), DEVICE)
        launches.append(sum(float(np.sum(draft.launches(s))) for s in found))
    assert launches == [2 * DEVICE.launch, DEVICE.launch]


def test_a_cast_is_no_function_call() -> None:
    """A uint8 product has the float product's loops and one cast an operand more: same order of time."""

    def seconds(dtype: str, out: str) -> np.ndarray:
        a = te.placeholder((128, 128), dtype, name="A")
        b = te.placeholder((128, 128), dtype, name="B")
        k = te.reduce_axis((0, 128), name="k")
        c = te.compute(
            (128, 128), lambda i, j: te.sum(a[i, k].astype(out) * b[k, j].astype(out), axis=k), name="C"
        )
        target = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
        space = Space.of(make_task(te.create_prim_func([a, b, c]), target))
        return RooflineDraft(device=DEVICE).score(space.sample(2000, np.random.default_rng(0)))

    narrow, wide = seconds("uint8", "int32"), seconds("float32", "float32")
    assert narrow.min() < 3 * wide.min()
    assert np.median(narrow) / narrow.min() > 2


def test_rows_whole_pages_apart_crowd_a_set_of_the_cache() -> None:
    """C2D/0's output rows are 112 * 64 floats, seven pages, apart. A tile of 56 rows, not unrolled, took 25
    times as long as programs of the same predicted time before this was known."""

    def convolution(h: list[int], w: list[int], sketch: int) -> tuple[float, float]:
        row = np.full((1, space("C2D/0").width), UNUSED)
        decided = [1, 1, 1, 1, *h, *w, 2, 1, 1, 32, 1, 7, 7, 1, 1, 3, 0, 6]
        row[0, : len(decided)] = decided
        one = Population(space("C2D/0"), np.array([sketch]), row)
        (found,) = (s for s in inspect(one.space.nests(one), DEVICE) if s.batch.statement.reduces)
        return float(found.tile.crowded[0]), seconds(one)

    crowded, slow = convolution([1, 1, 2, 56], [1, 7, 16, 1], 2)
    assert crowded == 56
    # Columns are 256 bytes apart; and a copy of the output has rows of its own.
    apart, fast = convolution([1, 7, 16, 1], [1, 1, 2, 56], 2)
    assert apart == 1
    assert convolution([1, 1, 2, 56], [1, 7, 16, 1], 0)[0] == 1
    assert slow > 3 * fast


def test_vectors_that_llvm_must_find_cost_more_the_longer_the_code() -> None:
    # TVM unrolls the 16 columns of the second tile level as well, with 8 and with 32 statements in each;
    # the larger tile has fewer loads and stores, and would be the faster one.
    short = tiled([8, 16, 1, 1], [8, 1, 16, 1], [16, 8], unroll=3)
    long = tiled([8, 4, 1, 4], [8, 1, 16, 1], [16, 8], unroll=3)
    assert [product(row).tile.around[0] for row in (short, long)] == [8, 32]
    assert all(product(row).tile.straight[0] for row in (short, long))
    free = RooflineDraft(device=DEVICE, costs=Costs(long=1e9))
    assert free.score(long)[0] < free.score(short)[0]
    assert seconds(long) > seconds(short)


def test_without_fused_multiply_adds_the_peak_is_half() -> None:
    row = tiled([2, 4, 4, 4], [4, 2, 2, 8], [16, 8])
    split = DEVICE.restricted(DEVICE.cores, DEVICE.vector_bytes, DEVICE.registers, fused=False)
    assert split.peak["float32"] == DEVICE.peak["float32"] / 2
    draft = RooflineDraft(device=split, penalties="none")
    assert draft.terms(product(row)).total[0] == pytest.approx(2 * N**3 / split.peak["float32"])


def test_long_straight_line_code_loses() -> None:
    """The same register tile, 16 operations and 1,024 of them in straight-line code."""
    short, long = (tiled([4, 8, 1, 8], [2, 4, 1, 16], k, unroll=3) for k in ([128, 1], [2, 64]))
    lost = [product_core(row) / product_core(row, Costs(swell=0.0)) for row in (short, long)]
    assert lost == [pytest.approx(1.0), pytest.approx(16**0.1)]


def product_core(row: Population, costs: Costs | None = None) -> float:
    return float(RooflineDraft(device=DEVICE, costs=costs).terms(product(row)).core[0])
