"""The excerpt of an old database that tests read, and copies of it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "data" / "metaschedule"
WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
# Tasks of the excerpt.
CONV, WINOGRAD, FLATTEN, DENSE, SOFTMAX = range(5)


def lines(name: str, folder: Path = FOLDER) -> list[str]:
    with gzip.open(folder / f"{name}.gz", "rt") as file:
        return file.read().splitlines()


def records(task: int, folder: Path = FOLDER) -> list[Any]:
    """The records of a task, valid ones first."""
    found = [record for record in map(json.loads, lines(RECORDS, folder)) if record[0] == task]
    return sorted(found, key=lambda record: not record[1][1] or record[1][1][0] >= 1e9)


def write(folder: Path, workloads: list[str], recorded: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / WORKLOADS).write_text("\n".join(workloads))
    (folder / RECORDS).write_text("\n".join(recorded))
    return folder


@pytest.fixture
def flatten(tmp_path: Path) -> Any:
    """Writes a database of the excerpt's cheapest task, from its records after a change to one of them."""

    def make(change: Any) -> Path:
        recorded = records(FLATTEN)[:3]
        for record in recorded:
            record[0] = 0
        changed = change(recorded[1])
        texts = [json.dumps(record) for record in recorded]
        texts[1] = changed if isinstance(changed, str) else json.dumps(recorded[1])
        return write(tmp_path / "database", lines(WORKLOADS)[FLATTEN : FLATTEN + 1], texts)

    return make
