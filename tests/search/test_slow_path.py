"""Sketches that arrays cannot express: their rows are replayed one by one."""

from collections.abc import Iterator

import numpy as np
import pytest
from tvm.ir import IRModule
from tvm.target import Target

from pruner.search import prepare as prepare_module
from pruner.search.analysis import SketchAnalysis, UnsupportedSketch
from pruner.search.nest import Nest
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import load_task
from tests.search.space_util import TARGET, check_rows, space_of


def test_rows_of_a_sketch_that_arrays_cannot_express_go_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(SketchAnalysis):
        def __init__(self, mod: IRModule, sketch: object, target: Target) -> None:
            raise UnsupportedSketch("as a test")

    fast = space_of("GMM/0")
    monkeypatch.setattr(prepare_module, "SketchAnalysis", Refusing)
    slow = Space.of(fast.task)
    assert slow.supported == (False, False, False)
    rows = slow.sample(20, np.random.default_rng(0))
    check_rows(slow.mutate(rows, np.random.default_rng(0)))
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
