"""Extraction in chunks, of sequences."""

from __future__ import annotations

import numpy as np
import pytest

from pruner.features.batch import FeatureBatch
from pruner.features.chunks import in_chunks


@pytest.mark.parametrize(
    ("n", "size", "sizes"), [(8, 3, [3, 3, 2]), (6, 3, [3, 3]), (2, 3, [2]), (0, 3, [0])]
)
def test_no_more_than_asked_for_are_extracted_at_once(n: int, size: int, sizes: list[int]) -> None:
    seen = []

    def extract(part: list[int]) -> FeatureBatch:
        """Of candidate i, i rows of its number."""
        seen.append(len(part))
        offsets = np.cumsum([0, *part])
        return FeatureBatch(np.repeat(np.array(part, np.float32), part)[:, None], offsets, "rows", 1)

    batch = in_chunks(extract, list(range(n)), size)
    assert seen == sizes
    assert [batch.take(np.array([i])).values.ravel().tolist() for i in range(n)] == [
        [i] * i for i in range(n)
    ]
