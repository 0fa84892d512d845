"""What straight-line code loads, against going through its iterations one by one."""

from itertools import product

import numpy as np
import pytest

from pruner.analyzer.inspection import inspect
from pruner.search.nest import Access, Loop
from tests.analyzer.analyzer_util import DEVICE, windows


def different(access: Access, loops: list[Loop], extents: np.ndarray, row: int, rows: int) -> int:
    """Elements that the access meets while the loops run."""
    steps = [{loop: np.broadcast_to(c, rows)[row] for loop, c in i.terms.items()} for i in access.index]
    met = set()
    for turn in product(*(range(int(extent)) for extent in extents)):
        place = dict(zip(loops, turn, strict=True))
        met.add(tuple(sum(c * place.get(loop, 0) for loop, c in step.items()) for step in steps))
    return len(met)


def test_overlapping_windows_are_loaded_once() -> None:
    rows = windows().sample(1000, np.random.default_rng(0))
    checked = 0
    for found in inspect(rows.space.nests(rows), DEVICE):
        if found.batch.statement.name != "C":
            continue
        tile, reads = found.tile, found.touched.accesses[: found.touched.operands]
        begin = min(found.roles.inside(("R0", "S2", "R1", "S3"), found.loops))
        # Everything inside is straight-line code, with one vector of TVM's own.
        whole = tile.promoted & (tile.kept == 5) & (tile.lanes == 8) & (tile.vectors == 1) & ~tile.own
        for j in np.flatnonzero(whole):
            extents, loops = found.extents[begin:, j], found.loops[begin:]
            loaded = [different(read, loops, extents, j, len(found.batch)) / 8 for read in reads]
            if max(loaded) + tile.wide[j] <= DEVICE.registers:
                assert tile.loads[j] == pytest.approx(sum(loaded) / (np.prod(extents) / 8))
                checked += 1
    assert checked > 10
