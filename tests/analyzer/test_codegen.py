"""The predicted rewrite of loops against TVM's own post-processed modules."""

import numpy as np
import pytest

from pruner.analyzer.codegen import rewrite
from pruner.analyzer.statements import batches
from pruner.search.nest import Statement
from pruner.search.tir_reader import read_nest
from tests.analyzer.analyzer_util import ALL, FAST, replayed, sample


def product_of(statement: Statement, kind: str) -> int:
    return int(np.prod([loop.extent for loop in statement.loops if loop.kind == kind]))


def compare(workload: str, n: int, seed: int) -> None:
    rows = sample(workload, n, seed)
    processed = []
    for row in range(len(rows)):
        schedule = replayed(rows, row)
        assert all(step.apply(schedule) for step in rows.space.materialiser._postprocessors)
        # Reductions are split into an initialisation and an update on the way.
        processed.append({s.name.removesuffix("_update"): s for s in read_nest(schedule).statements})
    found = batches(rows.space.nests(rows))
    seen = 0
    for batch, code in zip(found, rewrite(found), strict=True):
        for i, row in enumerate(batch.rows):
            made = processed[row][batch.statement.name]
            where = f"{workload} row {row} {batch.statement.name}"
            assert code.chunks[i] == product_of(made, "parallel"), where
            assert code.lanes[i] == product_of(made, "vectorized"), where
            seen += 1
    assert seen >= len(rows)


@pytest.mark.parametrize("workload", FAST)
def test_parallel_and_vector_loops_are_those_tvm_makes(workload: str) -> None:
    compare(workload, 25, 0)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ALL)
def test_parallel_and_vector_loops_everywhere(workload: str) -> None:
    for seed in range(1, 4):
        compare(workload, 100, seed)


def test_the_unroll_pragma_reaches_nests_with_a_reduction_only() -> None:
    rows = sample("C2D/0", 60)
    for batch in batches(rows.space.nests(rows)):
        for i, row in enumerate(batch.rows[:5]):
            schedule = replayed(rows, row)
            assert all(step.apply(schedule) for step in rows.space.materialiser._postprocessors)
            made = read_nest(schedule)
            named = {s.name.removesuffix("_update"): s for s in made.statements}
            outermost = named[batch.statement.name].loops[0]
            pragma = "pragma_auto_unroll_max_step" in outermost.annotations
            assert pragma == bool(batch.unrolls[i] and batch.unroll[i])
