"""A data set's columns in one file: .npz, or .parquet, which is smaller and needs pyarrow."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError
from pruner.files import draft_of

if TYPE_CHECKING:
    import pyarrow as arrow

FORMAT = 2
PARQUET = ".parquet"
SUFFIXES = (".npz", PARQUET)
# No data set takes as much memory; a file may claim to.
BYTES = 2 << 30

# What is stored, and as what: `Dataset` says what the columns mean. `decisions` has two dimensions. Texts
# that are not there are empty ones.
DTYPES: dict[str, type[np.generic]] = {
    "task": np.int64,
    "sketch_ids": np.int64,
    "decisions": np.int64,
    "traces": np.object_,
    "latency_s": np.float64,
    "spread_s": np.float64,
    "failure": np.str_,
    "cost_s": np.float64,
    "order": np.int64,
    "device": np.str_,
}
_TEXTS = ("traces", "failure", "device")
# A column of a .parquet file for each of a matrix, and in an .npz file the places where each text of a column
# ends: it has them all as one, since an array of texts takes the room of the longest for each.
_DECISION = "decision_"
_ENDS = "_ends"

Columns = dict[str, NDArray[Any]]


def write(path: Path, tasks: str, columns: Mapping[str, NDArray[Any]]) -> None:
    """Writes the columns and a text that describes their tasks; the file appears whole or not at all.
    Raises ConfigError when it cannot be written."""
    store = _write_parquet if path.suffix == PARQUET else _write_npz
    try:
        with draft_of(path) as draft:
            store(draft, tasks, columns)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Choose another file.") from error


def read(path: Path) -> tuple[str, Columns]:
    """What `write` wrote: the text and the columns, each of its type and dimensions. Raises ConfigError for a
    file of another format or one that would take over 2 GiB, and OSError, TypeError or ValueError for no data
    set at all."""
    load: Callable[[Path], tuple[str, Columns]]
    load = _read_parquet if path.suffix == PARQUET else _read_npz
    tasks, columns = load(path)
    for name, dtype in DTYPES.items():
        if columns[name].ndim != (2 if name == "decisions" else 1):
            raise ValueError(f"{name} has {columns[name].ndim} dimensions")
        if dtype is np.str_:
            texts = columns[name]
            _check_size(path, 4 * len(texts) * max(map(len, texts), default=0))
            columns[name] = texts.astype(np.str_)
        else:
            columns[name] = columns[name].astype(dtype, casting="safe", copy=False)
    return tasks, columns


def check_library(path: Path) -> None:
    """Raises ConfigError for a .parquet file where pyarrow is not installed."""
    if path.suffix == PARQUET:
        _pyarrow(path)


def _write_npz(path: Path, tasks: str, columns: Mapping[str, NDArray[Any]]) -> None:
    stored = {name: column for name, column in columns.items() if name not in _TEXTS}
    for name, texts in (("tasks", [tasks]), *((name, columns[name].tolist()) for name in _TEXTS)):
        coded = [text.encode() for text in texts]
        stored[name] = np.frombuffer(b"".join(coded), dtype=np.uint8)
        stored[f"{name}{_ENDS}"] = np.cumsum([len(text) for text in coded], dtype=np.int64)
    with path.open("wb") as file:
        np.savez_compressed(file, format=FORMAT, **stored)  # type: ignore[arg-type]


def _read_npz(path: Path) -> tuple[str, Columns]:
    with zipfile.ZipFile(path) as archive:
        _check_size(path, sum(member.file_size for member in archive.infolist()))
    with np.load(path, allow_pickle=False) as file:
        _check_format(path, int(file["format"]))
        columns = {name: file[name] for name in DTYPES if name not in _TEXTS}
        texts = {name: _texts(name, file[name], file[f"{name}{_ENDS}"]) for name in ("tasks", *_TEXTS)}
    (tasks,) = texts.pop("tasks")
    return tasks, {**columns, **{name: _objects(column) for name, column in texts.items()}}


def _texts(name: str, joined: NDArray[Any], ends: NDArray[Any]) -> list[str]:
    """Raises ValueError for what is not the end of each of several texts."""
    places = np.concatenate([[0], ends.astype(np.int64, casting="safe")])
    if (
        joined.dtype != np.uint8
        or joined.ndim != 1
        or places[-1] != len(joined)
        or (np.diff(places) < 0).any()
    ):
        raise ValueError(f"{name} are no texts")
    data = joined.tobytes()
    found: list[int] = places.tolist()
    return [data[start:stop].decode() for start, stop in pairwise(found)]


def _write_parquet(path: Path, tasks: str, columns: Mapping[str, NDArray[Any]]) -> None:
    arrow, parquet = _pyarrow(path)
    flat = {
        name: arrow.array(
            column.tolist() if name in _TEXTS else column, arrow.string() if name in _TEXTS else None
        )
        for name, column in columns.items()
        if name != "decisions"
    }
    flat |= {f"{_DECISION}{i}": arrow.array(column) for i, column in enumerate(columns["decisions"].T)}
    table = arrow.table(flat)
    described = {"format": str(FORMAT), "tasks": tasks}
    # With the schema stored, pyarrow would write the description a second time.
    with parquet.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as file:
        file.write_table(table)
        file.add_key_value_metadata(described)


def _read_parquet(path: Path) -> tuple[str, Columns]:
    arrow, parquet = _pyarrow(path)
    try:
        # As dictionaries, texts take their own room and not that of every time they are repeated.
        with parquet.ParquetFile(path, read_dictionary=list(_TEXTS)) as file:
            described = file.metadata.metadata or {}
            _check_format(path, int(described[b"format"]))
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            cells = 8 * file.metadata.num_rows * file.metadata.num_columns
            _check_size(path, max(cells, sum(group.total_byte_size for group in groups)))
            table = file.read()
    except arrow.ArrowException as error:  # not all of them are errors that Python has
        raise ValueError(str(error)) from error
    names = [name for name in DTYPES if name != "decisions"]
    columns = {name: (_repeated if name in _TEXTS else _column)(table, name) for name in names}
    width = sum(name.startswith(_DECISION) for name in table.column_names)
    decisions = np.empty((len(table), width), dtype=np.int64)
    for i in range(width):
        decisions[:, i] = _column(table, f"{_DECISION}{i}").astype(np.int64, casting="safe")
    return described[b"tasks"].decode(), {**columns, "decisions": decisions}


def _column(table: arrow.Table, name: str) -> NDArray[Any]:
    column: NDArray[Any] = table[name].to_numpy()
    return column


def _repeated(table: arrow.Table, name: str) -> NDArray[np.object_]:
    """The texts of a column of dictionaries. Raises TypeError where one is missing."""
    found: list[str] = []
    for chunk in table[name].chunks:
        texts = chunk.dictionary.to_pylist()
        found += [texts[place] for place in chunk.indices.to_pylist()]
    return _objects(found)


def _objects(values: Sequence[str]) -> NDArray[np.object_]:
    """Raises TypeError unless all are texts."""
    if not all(isinstance(value, str) for value in values):
        raise TypeError("a text is none")
    column = np.empty(len(values), dtype=np.object_)
    column[:] = values
    return column


def _check_format(path: Path, found: int) -> None:
    if found != FORMAT:
        raise ConfigError(
            f"{path} has format {found}; {FORMAT} is read. Convert the records that it is of once more."
        )


def _check_size(path: Path, found: int) -> None:
    if found > BYTES:
        raise ConfigError(f"{path} would take {found >> 20} MiB of memory; {BYTES >> 20} are allowed.")


def _pyarrow(path: Path) -> tuple[Any, Any]:
    """The library, and its part for these files. Raises ConfigError where it is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigError(
            f"{path} is a parquet file, which needs pyarrow: `pip install pyarrow`, or use an .npz file."
        ) from error
    return pyarrow, parquet
