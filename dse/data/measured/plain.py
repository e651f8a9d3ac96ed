"""Read tables that have the columns of `dse.data.measured.table` already: CSV, Parquet and rows of JSON."""

from pathlib import Path
from typing import Any

from dse.data import safe_readers
from dse.data.measured.table import MeasuredTable
from dse.errors import DseError

PARQUET = b"PAR1"  # how such a file begins


def read_parquet(path: Path, content: bytes) -> MeasuredTable:
    """Read a Parquet file. **Raises:** DseError if it is none."""
    if not content.startswith(PARQUET):
        raise DseError(f"{path}: cannot read: found no Parquet file, expected one")
    return MeasuredTable(path, safe_readers.parquet(path, content))


def of_objects(path: Path, rows: Any) -> MeasuredTable:
    """Read a JSON list of one object a row. **Raises:** DseError if it is none."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise DseError(f"{path}: row {number}: found {str(row)[:40]!r}, expected an object")
    return MeasuredTable.of_rows(path, rows)


def read_csv(path: Path, text: str) -> MeasuredTable:
    """Read cells separated by commas, tabs or semicolons; with the last, decimal commas if there are any."""
    return MeasuredTable(path, safe_readers.csv_table(path, text), safe_readers.decimal_point(text))
