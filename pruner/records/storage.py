"""A data set's columns in one file: .npz, or .parquet, which is smaller and needs pyarrow."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pruner.errors import ConfigError
from pruner.files import draft_of

if TYPE_CHECKING:
    import pyarrow as arrow

FORMAT = 1
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
    "traces": np.str_,
    "latency_s": np.float64,
    "spread_s": np.float64,
    "failure": np.str_,
    "cost_s": np.float64,
    "order": np.int64,
    "device": np.str_,
}
# A column of a .parquet file for each of a matrix.
_DECISION = "decision_"

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
    """What `write` wrote: the text and the columns, each of its type. Raises ConfigError for a file of
    another format or one that would take over 2 GiB, and OSError or ValueError for no data set at all."""
    load: Callable[[Path], tuple[str, Columns]]
    load = _read_parquet if path.suffix == PARQUET else _read_npz
    tasks, columns = load(path)
    return tasks, {name: columns[name].astype(dtype, copy=False) for name, dtype in DTYPES.items()}


def check_library(path: Path) -> None:
    """Raises ConfigError for a .parquet file where pyarrow is not installed."""
    if path.suffix == PARQUET:
        _pyarrow(path)


def _write_npz(path: Path, tasks: str, columns: Mapping[str, NDArray[Any]]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, format=FORMAT, tasks=tasks, **columns)  # type: ignore[arg-type]


def _read_npz(path: Path) -> tuple[str, Columns]:
    with zipfile.ZipFile(path) as archive:
        _check_size(path, sum(member.file_size for member in archive.infolist()))
    with np.load(path, allow_pickle=False) as file:
        _check_format(path, int(file["format"]))
        return str(file["tasks"]), {name: file[name] for name in DTYPES}


def _write_parquet(path: Path, tasks: str, columns: Mapping[str, NDArray[Any]]) -> None:
    arrow, parquet = _pyarrow(path)
    flat = {name: column for name, column in columns.items() if name != "decisions"}
    flat |= {f"{_DECISION}{i}": column for i, column in enumerate(columns["decisions"].T)}
    table = arrow.table({name: arrow.array(column) for name, column in flat.items()})
    described = {"format": str(FORMAT), "tasks": tasks}
    # With the schema stored, pyarrow would write the description a second time.
    with parquet.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as file:
        file.write_table(table)
        file.add_key_value_metadata(described)


def _read_parquet(path: Path) -> tuple[str, Columns]:
    arrow, parquet = _pyarrow(path)
    try:
        with parquet.ParquetFile(path) as file:
            described = file.metadata.metadata or {}
            _check_format(path, int(described[b"format"]))
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            cells = 8 * file.metadata.num_rows * file.metadata.num_columns
            _check_size(path, max(cells, sum(group.total_byte_size for group in groups)))
            table = file.read()
    except arrow.ArrowException as error:  # not all of them are errors that Python has
        raise ValueError(str(error)) from error
    columns = {name: _column(table, name) for name in DTYPES if name != "decisions"}
    names = [name for name in table.column_names if name.startswith(_DECISION)]
    decisions = np.empty((len(table), len(names)), dtype=np.int64)
    for i in range(len(names)):
        decisions[:, i] = _column(table, f"{_DECISION}{i}")
    return described[b"tasks"].decode(), {**columns, "decisions": decisions}


def _column(table: arrow.Table, name: str) -> NDArray[Any]:
    column: NDArray[Any] = table[name].to_numpy()
    return column


def _check_format(path: Path, found: int) -> None:
    if found != FORMAT:
        raise ConfigError(f"{path} has format {found}; {FORMAT} is read.")


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
            f"{path} is a parquet file, which needs pyarrow: `pip install pruner-tvm[parquet]`, or use "
            "an .npz file."
        ) from error
    return pyarrow, parquet
