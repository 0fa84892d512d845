"""The candidate that docs/features.md works out by hand."""

import re
from pathlib import Path

import numpy as np
import pytest
from tvm import te

from pruner.analyzer.device import Device
from pruner.features.make import make_extractors
from pruner.placement import placed
from pruner.search.population import Population
from pruner.search.space import Space
from pruner.workload import make_task

TEXT = (Path(__file__).parents[2] / "docs" / "features.md").read_text("utf-8")
NUMBERS = {column: int(number) for column, number in re.findall(r"^\| `(\w+)` \| (\d+) \| ", TEXT, re.M)}
DECISIONS = [4, 2, 4, 2, 2, 1, 2, 16, 16, 4, 0]


def product():
    """C = A B of 64 x 64 floats."""
    a, b = (te.placeholder((64, 64), "float32", name=name) for name in "AB")
    k = te.reduce_axis((0, 64), name="k")
    return te.create_prim_func([a, b, te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], k), "C")])


@pytest.fixture(scope="module")
def candidate():
    """The device and the candidate, as a population of one."""
    device, task, _ = placed(
        Device.load("x86-64"), None, lambda complete: make_task(product(), complete, "product")
    )
    space = Space.of(task)
    [plain] = [i for i, s in enumerate(space.sketches) if "cache_write" not in str(s.trace)]
    return device, Population(space, np.array([plain]), np.array([DECISIONS]))


def numbers(device, rows, feature):
    """By column, what the logarithms are of, a number a row."""
    [extractor] = make_extractors([feature], device).values()
    batch = extractor.extract(rows)
    return dict(zip(extractor.columns, np.exp2(batch.values.T.astype(float)) - 1, strict=True))


@pytest.mark.parametrize("feature", ["statement_fast", "statement"])
def test_every_number_is_the_one_in_the_text(feature, candidate):
    assert len(NUMBERS) >= 14
    found = numbers(*candidate, feature)
    for column, number in NUMBERS.items():
        np.testing.assert_allclose(found[column], [number], rtol=1e-5)


def test_dataflow_counts_what_is_really_touched(candidate):
    found = numbers(*candidate, "dataflow")["unique_bytes"]
    np.testing.assert_allclose(found[5:8], 64 * 64 * 4, rtol=1e-5)
