from dataclasses import replace

import numpy as np
import pytest

from pruner.analyzer.statements import batches
from pruner.search.members import describe
from tests.analyzer.analyzer_util import reference, sample, space


def test_merging_keeps_every_statement_of_every_row() -> None:
    rows = sample("TBG/0", 80)
    groups = list(rows.space.nests(rows))
    found = batches(groups)
    assert len(found) < sum(len(nest.statements) for _, nest in groups) / 2
    names = {row: [s.name for s in reference(rows, row).statements] for row in range(len(rows))}
    seen: dict[tuple[int, int], str] = {}
    for batch in found:
        for row, slot in zip(batch.rows.tolist(), batch.slot.tolist(), strict=True):
            assert (row, slot) not in seen
            seen[row, slot] = batch.statement.name
    assert seen == {(row, slot): name for row, all_ in names.items() for slot, name in enumerate(all_)}


def test_extents_are_those_of_the_rows() -> None:
    rows = sample("C2D/0", 60, seed=3)
    truth = [{s.name: s for s in reference(rows, row).statements} for row in range(len(rows))]
    for batch in batches(rows.space.nests(rows)):
        for i, row in enumerate(batch.rows):
            expected = [loop.extent for loop in truth[row][batch.statement.name].loops]
            assert batch.extents()[:, i].tolist() == expected


def test_data_is_the_size_of_all_buffers() -> None:
    rows = space("GMM/0").sample(30, np.random.default_rng(0))
    for batch in batches(rows.space.nests(rows)):
        for size, row in zip(batch.data, batch.rows, strict=True):
            copies = len(reference(rows, row).statements)  # a cache-write copy adds a buffer
            assert size == 4 * 128 * 128 * (2 + copies)


@pytest.mark.parametrize("workload", ["TBG/0", "T2D/0", "SFM/0"])
def test_gathering_over_structures_equals_merging_their_nests(workload: str) -> None:
    """Statements of one sketch are evaluated once for all structures; filled-in nests know no sketch."""
    rows = sample(workload, 200)
    groups = list(rows.space.nests(rows))
    plain = [(i, replace(nest, statements=tuple(nest.statements))) for i, nest in groups]
    fast, slow = batches(groups), batches(plain)
    assert len(fast) == len(slow)
    for a, b in zip(fast, slow, strict=True):
        x, y = np.argsort(a.rows), np.argsort(b.rows)
        assert (a.rows[x] == b.rows[y]).all()
        assert (a.extents()[:, x] == b.extents()[:, y]).all()
        assert (a.forks[:, x] == b.forks[:, y]).all()
        for name in ("slot", "nest", "branch", "data", "unrolls", "parallel", "vectorize", "unroll"):
            assert (getattr(a, name)[x] == getattr(b, name)[y]).all(), name
        mine, other = describe(a.statement), describe(b.statement)
        assert mine[0] == other[0]
        for p, q in zip(mine[1], other[1], strict=True):
            p, q = np.broadcast_to(p, len(a)), np.broadcast_to(q, len(b))
            assert (p[x] == q[y]).all()
        for p, q in zip(a.homes, b.homes, strict=True):
            assert (p[x] == q[y]).all()
