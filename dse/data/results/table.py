"""A result file's rows as a table, and its columns as arrays."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dse.core.files import parse_json, read_json, read_text
from dse.data import safe_readers
from dse.data.results.vocabulary import UNREAD
from dse.errors import DseError

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".json", ".jsonl")
MOST_ROWS = 4_000_000  # of a file: about 3 GB of memory


def read_table(path: Path, most_rows: int = MOST_ROWS) -> pa.Table:
    """Read a file's rows. **Raises:** DseError for none, and for two columns of one name."""
    table = _rows(path, most_rows)
    if not table.num_rows:
        raise DseError(f"{path}: rows: found none, expected at least one")
    names = table.column_names
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DseError(f"{path}: columns: found {twice[0]} twice, expected each name once")
    return table


def _rows(path: Path, most_rows: int) -> pa.Table:
    name = path.name.lower()
    if name.endswith(".parquet"):
        return safe_readers.parquet(path, without=UNREAD, rows=most_rows)
    if name.endswith((".csv", ".csv.gz")):
        return safe_readers.csv_table(path, safe_readers.text(path))
    if not name.endswith((".json", ".jsonl")):
        suffix = repr(path.suffix) if path.suffix else "no suffix"
        raise DseError(f"{path}: suffix: found {suffix}, expected {', '.join(SUFFIXES)}")
    if name.endswith(".jsonl"):
        lines = enumerate(read_text(path).splitlines(), 1)
        rows = [_of_journal(parse_json(line, f"{path}: line {i}"), i) for i, line in lines if line]
    else:
        rows = read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DseError(f"{path}: top level: found {type(rows).__name__}, expected a list of rows")
    columns = dict.fromkeys(column for row in rows for column in row)
    safe_readers.check_size(path, len(columns), len(rows), most_rows)
    return pa.table({column: _cells([row.get(column) for row in rows]) for column in columns})


def _of_journal(line: Any, number: int) -> Any:
    """Read a line of a journal of `dse tune`, which has the parameters in a table of their own."""
    if isinstance(line, dict) and isinstance(line.get("parameters"), dict):
        return {"number": number} | line["parameters"] | {"measured_s": line.get("seconds")}
    return line


def _cells(cells: list[Any]) -> pa.Array:
    try:
        return pa.array(cells)
    except (pa.ArrowException, OverflowError):  # numbers beside words
        return pa.array([None if cell is None else str(cell) for cell in cells])


def array_of(column: pa.ChunkedArray) -> np.ndarray:
    """Give a column as integers, truth values, floats with NaN, or words with None."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).to_numpy().astype(float) == 1
    if pa.types.is_integer(kind) and not column.null_count:
        return column.to_numpy()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.float64()).to_numpy()
    words = column if pa.types.is_dictionary(kind) else _words(column).dictionary_encode()
    coded = words.combine_chunks() if words.num_chunks != 1 else words.chunk(0)
    names = np.array([*coded.dictionary.to_pylist(), None], object)
    return names[np.asarray(coded.indices.fill_null(len(names) - 1))]


def _words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write a column's cells as words, whatever they are."""
    if not pa.types.is_nested(column.type) and not pa.types.is_binary(column.type):
        with suppress(pa.ArrowException):
            return column.cast(pa.string())
    return pa.chunked_array(
        [[None if cell is None else str(cell) for cell in column.to_pylist()]], pa.string()
    )
