"""Weights of tasks beside a MetaSchedule database: what is refused, and what damage does."""

import math
from typing import Any

import numpy as np
import pytest

from pruner.errors import ConfigError
from pruner.records.metaschedule import read_metaschedule
from tests.records.mutate import damaged
from tests.records.old_database import flatten

__all__ = ["flatten"]

BAD_WEIGHTS = [
    ("task,weight\n0,nan\n", 2),
    ("task,weight\n# c\n0,1\n0,inf\n", 4),
    ("task,weight\n0,-1\n", 2),
    ("task,weight\n0\n", 2),
    ("task,weight\nx,1\n", 2),
    ("id,weight\n0,1\n", 2),
    (f"task,weight\n0,{'9' * 200_000}\n", 2),
    ("task,weight\n0,1\r1,2\n", 2),
]


@pytest.mark.parametrize(("text", "line"), BAD_WEIGHTS)
def test_weights_that_are_none_are_refused_with_file_and_line(flatten: Any, text: str, line: int) -> None:
    folder = flatten(lambda record: None)
    (folder / "tasks.csv").write_text(text, newline="")
    with pytest.raises(ConfigError, match=rf"tasks.csv, line {line}: it needs the number of a task"):
        read_metaschedule(folder)


def test_damaged_weights_end_in_a_result_or_a_named_error(flatten: Any) -> None:
    folder = flatten(lambda record: None)
    whole = ["task,weight", *(f'"{task}",{task + 0.5}' for task in range(5))]
    ends = set()
    for seed in range(100):
        (folder / "tasks.csv").write_text("\n".join(damaged(whole, np.random.default_rng(seed))))
        try:
            dataset, _ = read_metaschedule(folder)
        except ConfigError:
            ends.add("refused")
        else:
            assert 0 <= dataset.tasks[0].weight < math.inf
            ends.add("read")
    assert ends == {"refused", "read"}
