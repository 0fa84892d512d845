import numpy as np

from pruner.analyzer.statements import batches
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
