"""Read tables that have the columns of `dse.measured.table` already: CSV, Parquet and rows of JSON."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dse.errors import DseError
from dse.measured.table import Table

PARQUET = b"PAR1"  # how such a file begins


def read_parquet(path: Path, content: bytes) -> Table:
    """Read a Parquet file. **Raises:** DseError if it is none."""
    if not content.startswith(PARQUET):
        raise DseError(f"{path}: cannot read: found no Parquet file, expected one")
    return Table(path, pyarrow.parquet.ParquetFile(pa.BufferReader(content)).read())


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
    decimal = "," if delimiter == ";" and re.search(r"\d,\d", text) else "."
    table = pyarrow.csv.read_csv(
        pa.BufferReader(text.encode()),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
        convert_options=pyarrow.csv.ConvertOptions(decimal_point=decimal),
    )
    return Table(path, table, decimal)
