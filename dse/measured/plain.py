"""Read tables that have the columns of `dse.measured.table` already: CSV, Parquet and rows of JSON."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dse.errors import DseError
from dse.measured.table import Table

PARQUET = b"PAR1"  # how such a file begins
MOST_COLUMNS = 2000
MOST_ROWS = 10**8
MOST_BYTES = 1 << 30  # unpacked
_ROWS_AT_A_TIME = 1 << 16


def read_parquet(path: Path, content: bytes) -> Table:
    """Read a Parquet file. **Raises:** DseError if it is none."""
    if not content.startswith(PARQUET):
        raise DseError(f"{path}: cannot read: found no Parquet file, expected one")
    file = pyarrow.parquet.ParquetFile(pa.BufferReader(content))
    about = file.metadata
    _check_size(path, about.num_columns, about.num_rows)
    table = pa.Table.from_batches(_of_bounded_size(path, file), file.schema_arrow)
    return Table(path, table)


def _of_bounded_size(path: Path, file: pyarrow.parquet.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Yield what a file holds, and stop when it is too much: a small file may stand for a large one."""
    taken = 0
    for batch in file.iter_batches(_ROWS_AT_A_TIME):
        taken += batch.nbytes
        if taken > MOST_BYTES:
            raise DseError(f"{path}: found more than {MOST_BYTES:,} bytes, expected a smaller table")
        yield batch


def _check_size(path: Path, columns: int, rows: int) -> None:
    if columns > MOST_COLUMNS or rows > MOST_ROWS:
        what, found, most = "columns", columns, MOST_COLUMNS
        if columns <= MOST_COLUMNS:
            what, found, most = "rows", rows, MOST_ROWS
        raise DseError(f"{path}: {what}: found {found:,}, expected at most {most:,}")


def of_objects(path: Path, rows: Any) -> Table:
    """Read a JSON list of one object a row. **Raises:** DseError if it is none."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DseError(f"{path}: row {number}: found {str(row)[:40]!r}, expected an object")
    return Table.of_rows(path, rows)


def read_csv(path: Path, text: str) -> Table:
    """Read cells separated by commas, tabs or semicolons; with the last, decimal commas if there are any."""
    header = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    _check_size(path, header.count(delimiter) + 1, text.count("\n"))
    decimal = "," if delimiter == ";" and re.search(r"\d,\d", text) else "."
    table = pyarrow.csv.read_csv(
        pa.BufferReader(text.encode()),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(decimal_point=decimal),
    )
    return Table(path, table, decimal)
