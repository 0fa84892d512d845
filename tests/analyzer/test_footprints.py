"""Footprints and traffic of merged statements against one-row nests read from the program TVM made."""

import itertools

import numpy as np
import pytest

from pruner.analyzer.footprints import inputs, reach, widths_by_depth
from pruner.analyzer.statements import StatementBatch, batches
from pruner.search.nest import Access, Loop, Statement
from pruner.search.population import UNUSED, Population
from tests.analyzer.analyzer_util import ALL, FAST, reference, sample, windows

LINE = 64


def by_name(workload: str, n: int, seed: int) -> list[tuple[StatementBatch, int, Statement]]:
    """Each batch with a few of its members and those members' reference statements."""
    rows = sample(workload, n, seed)
    truths = [{s.name: s for s in reference(rows, row).statements} for row in range(len(rows))]
    return [
        (batch, i, truths[row][batch.statement.name])
        for batch in batches(rows.space.nests(rows))
        for i, row in enumerate(batch.rows)
    ]


def touched(access: Access, loops: list[Loop]) -> set[tuple[int, ...]]:
    """The elements an access touches while `loops` run, one by one."""
    found = set()
    for point in itertools.product(*(range(int(loop.extent)) for loop in loops)):  # type: ignore[arg-type]
        at = dict(zip(loops, point, strict=True))
        found.add(tuple(int(index.at(at)) for index in access.index))  # type: ignore[arg-type]
    return found


def column(value: object, i: int) -> float:
    return float(
        np.broadcast_to(np.asarray(value), i + 1)[i] if np.ndim(value) == 0 else np.asarray(value)[i]
    )


def test_widths_are_the_spans_of_the_elements_touched() -> None:
    checked = 0
    for batch, i, truth in by_name("C2D/0", 12, 0):
        depth = len(truth.loops)
        for mine, theirs in zip(
            (*batch.statement.reads, *batch.statement.writes), (*truth.reads, *truth.writes), strict=True
        ):
            table = widths_by_depth(mine, batch.statement.loops)
            for level in range(depth + 1):
                inner = list(truth.loops[level:])
                if np.prod([loop.extent for loop in inner]) > 3000:
                    continue
                points = np.array(sorted(touched(theirs, inner)))
                spans = points.max(axis=0) - points.min(axis=0) + 1
                spans = np.minimum(spans, theirs.buffer.shape)
                assert [column(width, i) for width in table[level]] == spans.tolist()
                checked += 1
    assert checked > 300


def compare(workload: str, n: int, seed: int) -> None:
    known: dict[int, object] = {}
    for batch, i, truth in by_name(workload, n, seed):
        if id(batch) not in known:
            loops, extents = batch.live_loops()
            known[id(batch)] = (batch, loops, extents, reach(batch, loops, extents, LINE))
        _, loops, _, found = known[id(batch)]  # type: ignore[misc]
        accesses = (*(truth.reads[k] for k in inputs(truth)), *truth.writes)
        homes = [batch.homes[k][i] for k in inputs(batch.statement)]
        homes += [home[i] for home in batch.homes[len(batch.statement.reads) :]]
        for a, (access, home) in enumerate(zip(accesses, homes, strict=True)):
            for level in range(len(loops) + 1):
                start = batch.statement.loops.index(loops[level]) if level < len(loops) else len(truth.loops)
                inner = truth.loops[max(start, int(home)) :] if start < len(truth.loops) else ()
                expected = float(access.footprint(inner))
                assert found.elements[a][level, i] == pytest.approx(expected, rel=1e-2), (workload, access)


@pytest.mark.parametrize("workload", FAST)
def test_elements_equal_the_reference(workload: str) -> None:
    compare(workload, 20, 1)


@pytest.mark.slow
@pytest.mark.parametrize("workload", ALL)
def test_elements_equal_the_reference_everywhere(workload: str) -> None:
    compare(workload, 100, 2)


def test_traffic_of_a_matrix_product_by_hand() -> None:
    """Whatever fits is read once; what does not is read again for every pass of the loop outside."""
    rows = sample("GMM/0", 200)
    seen = 0
    for batch in batches(rows.space.nests(rows)):
        # With a cache-write copy the accumulator lives inside the outer loops and is smaller.
        if not batch.statement.reduces or not batch.statement.writes[0].buffer.argument:
            continue
        loops, extents = batch.live_loops()
        found = reach(batch, loops, extents, LINE)
        whole = found.traffic(float("inf"))
        assert whole == pytest.approx(4 * (128 * 128 * 2 + 2 * 128 * 128))  # the output is read and written
        nothing = found.traffic(0.0)
        instances = np.prod(extents, axis=0)
        assert (nothing >= whole).all()
        assert (nothing <= instances * LINE * 4).all()
        # A larger memory never fetches more.
        sizes = [found.traffic(float(1 << bits)) for bits in range(8, 24)]
        assert all((more >= less - 1e-6).all() for more, less in itertools.pairwise(sizes))
        seen += len(batch)
    assert seen > 30


def test_overlapping_windows_are_fetched_once() -> None:
    """64 positions one after another, each with five taps of 32 channels: the next one needs one new tap."""
    space = windows()
    sketch = space.sketches[-1]  # without a copy of the output
    row = np.full((1, space.width), UNUSED)
    row[0, : sketch.width] = [64, 1, 1, 1, 1, 1, 1, 32, 1, 5, 0]
    rows = Population(space, np.array([len(space.sketches) - 1]), row)
    (batch,) = batches(space.nests(rows))
    found = reach(batch, *batch.live_loops(), transaction=4)
    one = 4 * (5 * 32 + 5 * 32 + 32)
    assert found.traffic(one) == pytest.approx(4 * (68 * 32 + 5 * 32 + 2 * 64 * 32))
    # Where not even one position's taps stay, every one of them is loaded anew.
    assert found.traffic(one - 4) > 4 * 64 * 5 * 32
