"""Legal rows drawn in stages against drawing whole rows and throwing the others away."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from tvm import te
from tvm.target import Target

from pruner.search.space import Space
from pruner.search.symbolic.polynomial import Symbols
from pruner.search.symbolic.tabled import Tabled
from pruner.search.symbolic.tape import Tape
from pruner.workload import load_task, make_task

CUDA = Target("nvidia/nvidia-a100")
LLVM = Target({"kind": "llvm", "num-cores": 2})


@cache
def space(name: str, target: Target = CUDA) -> Space:
    return Space.of(load_task(name, target))


@pytest.mark.parametrize("name", ["C2D/0", "C3D/0", "T2D/0", "GRP/0", "SFM/0"])
def test_as_many_legal_rows_as_wanted_from_every_sketch(name: str) -> None:
    rows = space(name).sample_legal(900, np.random.default_rng(0))
    assert len(rows) == 900
    assert space(name).legal(rows).all()
    counts = np.bincount(rows.sketch_ids)
    assert len(counts) == len(space(name).sketches)
    assert counts.min() > 0.7 * counts.max()
    assert len(space(name).unique(rows)) > 800 or name == "SFM/0"


@pytest.mark.parametrize("name", ["GMM/0", "GRP/0"])
def test_they_are_distributed_as_the_legal_ones_of_whole_rows(name: str) -> None:
    """Threads, the innermost tile of a reduction and the lanes of a fetch, of one pipelined sketch."""
    tiles = [gene for gene in space(name).sketches[1].genes if gene.width > 1]
    lanes = next(gene for gene in space(name).sketches[1].genes if gene.width == 1)

    def features(seed: int, *, staged: bool) -> list[np.ndarray]:
        drawn = space(name).sample_legal if staged else space(name).sample
        rows = drawn(6_000 if staged else 250_000, np.random.default_rng(seed))
        rows = rows[(rows.sketch_ids == 1) & space(name).legal(rows)]
        assert len(rows) > 900
        threads = np.prod([rows.decisions[:, tile.start + 2] for tile in tiles if tile.width == 5], axis=0)
        innermost = rows.decisions[:, tiles[-1].start + 2]
        return [np.minimum(np.log2(threads).astype(int), 8), innermost, rows.decisions[:, lanes.start]]

    for one, other in zip(features(1, staged=True), features(2, staged=False), strict=True):
        values = np.union1d(one, other)
        table = [[np.sum(side == value) for value in values] for side in (one, other)]
        table = np.array(table)[:, np.sum(table, axis=0) > 20]
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
        freedom = table.shape[1] - 1
        # Chi-squared: its mean is `freedom`, its variance twice that.
        assert freedom > 1
        assert ((table - expected) ** 2 / expected).sum() < freedom + 4 * np.sqrt(2 * freedom)


def test_where_all_rows_are_legal_nothing_changes() -> None:
    for target, name in ((LLVM, "C2D/0"), (CUDA, "NRM/0")):
        rows = space(name, target).sample(300, np.random.default_rng(3))
        legal = space(name, target).sample_legal(300, np.random.default_rng(3))
        assert legal.keys().tolist() == rows.keys().tolist()


def test_a_space_without_a_legal_row_gives_none() -> None:
    """TVM inlines one of the two outputs where the other needs what it replaces."""
    x, k = te.placeholder((64, 48), name="x"), te.reduce_axis((0, 48), name="k")
    y = te.placeholder((48, 32), name="y")
    m = te.compute((64, 32), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="m")
    plus = te.compute(m.shape, lambda i, j: m[i, j] + 1.0, name="plus")
    times = te.compute(m.shape, lambda i, j: m[i, j] * 2.0, name="times")
    both = Space.of(make_task(te.create_prim_func([x, y, plus, times]), CUDA))
    assert len(both.sample_legal(50, np.random.default_rng(4))) == 0
    assert not both.legal(both.sample(50, np.random.default_rng(4))).any()


def test_tabled_values_are_those_of_the_factors_and_least_where_nothing_is_drawn() -> None:
    symbols = Symbols()
    a, b, c = symbols.tile(0, 3, 60)
    d, e = symbols.tile(3, 2, 14)
    value = 4 * a * c * d + (a * b + e) // 3
    tilings = {
        0: np.array([[1, 2, 30], [5, 4, 3], [60, 1, 1], [2, 10, 3]]),
        3: np.array([[1, 14], [2, 7], [14, 1]]),
    }
    tape = Tape()
    slot = tape.slot(Tabled(tilings)(value))
    numbers = {0: np.array([0, 1, 2, 3, 1]), 3: np.array([0, 1, 2, 1, 2])}
    x, y = tilings[0][numbers[0]].T, tilings[3][numbers[3]].T
    expected = 4 * x[0] * x[2] * y[0] + (x[0] * x[1] + y[1]) // 3
    assert tape.run(numbers)[slot].tolist() == expected.tolist()
    undrawn = tape.run({0: numbers[0], 3: len(tilings[3])})[slot]
    assert undrawn.tolist() == (4 * x[0] * x[2] * 1 + (x[0] * x[1] + 1) // 3).tolist()
