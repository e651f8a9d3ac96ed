"""Read untrusted gzip, zip, NumPy, CSV and Parquet files within size limits.

A small file may expand to more than all memory. Readers return at most the stated size, or raise DseError.
"""

import gzip
import io
import re
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dse.core.files import read_bytes
from dse.errors import DseError

if TYPE_CHECKING:  # takes 0.1 s
    import pyarrow as pa
    import pyarrow.parquet

MOST_BYTES = 1 << 28  # of a file, compressed or not
MOST_TABLE_BYTES = 1 << 30  # of a table in memory
MOST_COLUMNS = 2000
MOST_ROWS = 10**8
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"  # magic bytes
_ROWS_AT_A_TIME = 1 << 16


def unzipped(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read a file, gzipped or not, whatever its suffix.

    **Raises:** DseError if it cannot be read, or exceeds `most` bytes, compressed or not.
    """
    content = read_bytes(path, most)
    if content.startswith(GZIP):
        with refused(path), gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            content = packed.read(most + 1)
    if len(content) > most:
        raise DseError(f"{path}: found more than {most:,} bytes, expected a smaller file")
    return content


def text(path: Path, most: int = MOST_BYTES) -> str:
    """Read a text file, gzipped or not. **Raises:** DseError as `unzipped`, and if it is not UTF-8."""
    with refused(path):
        return unzipped(path, most).decode("utf-8-sig")


class Members:
    """The members of a zip file, read by name."""

    def __init__(self, path: Path, most: int = MOST_BYTES) -> None:
        """Open a zip file with at most `most` bytes in all members. **Raises:** DseError."""
        self.path = path
        content = read_bytes(path, most)
        with refused(path):
            self._file = zipfile.ZipFile(io.BytesIO(content))
        self.names = tuple(self._file.namelist())
        if sum(info.file_size for info in self._file.infolist()) > most:
            raise DseError(f"{path}: found more than {most:,} bytes, expected a smaller file")

    def read(self, name: str) -> bytes:
        """Read a member. **Raises:** DseError if it is missing or damaged."""
        if name not in self.names:
            raise DseError(f"{self.path}: found no {name} in it, expected one")
        with refused(self.path):
            return self._file.read(name)  # zipfile stops at the stated size


def arrays(path: Path, most: int = MOST_TABLE_BYTES) -> dict[str, np.ndarray]:
    """Read the arrays of a NumPy .npz file, without pickled objects. **Raises:** DseError."""
    members = Members(path, most)
    arrays = {}
    for name in members.names:
        content = members.read(name)
        with refused(path):
            array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        arrays[name.removesuffix(".npy")] = array
    return arrays


def csv_table(path: Path, text: str) -> tuple["pa.Table", str]:
    """Read CSV separated by commas, tabs or semicolons; also return the decimal sign of its numbers.

    Semicolons separate numbers with decimal commas, if there are any.

    **Raises:** DseError if it is damaged or too large.
    """
    import pyarrow as pa
    import pyarrow.csv

    header = text.lstrip().partition("\n")[0]
    delimiter = max(",;\t", key=header.count)
    check_size(path, header.count(delimiter) + 1, text.count("\n"))
    decimal = "," if delimiter == ";" and re.search(r"\d,\d", text) else "."
    with refused(path):
        table = pyarrow.csv.read_csv(
            pa.BufferReader(text.encode()),
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter),
            convert_options=pyarrow.csv.ConvertOptions(decimal_point=decimal),
        )
    return table, decimal


def parquet(
    path: Path,
    content: bytes | None = None,
    *,
    without: Collection[str] = (),
    rows: int = MOST_ROWS,
    most: int = MOST_TABLE_BYTES,
) -> "pa.Table":
    """Read a Parquet file, or its `content`, `without` some columns.

    **Raises:** DseError, one line, if it is not Parquet, or has more than MOST_COLUMNS, `rows` or
    `most` bytes in memory.
    """
    import pyarrow as pa
    import pyarrow.parquet

    if content is not None and not content.startswith(PARQUET):
        raise DseError(f"{path}: cannot read: found no Parquet file, expected one")
    with refused(path):
        source = path if content is None else pa.BufferReader(content)
        file = pyarrow.parquet.ParquetFile(source)
        check_size(path, file.metadata.num_columns, file.metadata.num_rows, rows)
        columns = [name for name in file.schema_arrow.names if name not in without] if without else None
        schema = file.schema_arrow
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns], schema.metadata)
        return pa.Table.from_batches(_batches(path, file, columns, most), schema)


def _batches(
    path: Path, file: "pyarrow.parquet.ParquetFile", columns: list[str] | None, most: int
) -> Iterator["pa.RecordBatch"]:
    """Yield the batches of a file. **Raises:** DseError if they exceed `most` bytes."""
    size = 0
    for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=columns):
        size += batch.nbytes
        if size > most:
            raise DseError(f"{path}: found more than {most:,} bytes, expected a smaller table")
        yield batch


def check_size(path: Path, columns: int, rows: int, most_rows: int = MOST_ROWS) -> None:
    """Reject a table that is too large. **Raises:** DseError."""
    for kind, number, most in (("columns", columns, MOST_COLUMNS), ("rows", rows, most_rows)):
        if number > most:
            raise DseError(f"{path}: {kind}: found {number:,}, expected at most {most:,}")


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Convert any exception of a library on a damaged file to DseError."""
    try:
        yield
    except DseError:
        raise
    except Exception as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        reason = reason if reason and not isinstance(error, KeyError) else f"damaged ({type(error).__name__})"
        raise DseError(f"{path}: cannot read: {reason}") from None
