"""Write tables as files."""

import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dse.errors import DseError
from dse.files import replacing


def write_table(path: Path | str, columns: Mapping[str, Any]) -> None:
    """Write columns of equal length as Parquet, CSV or JSON (a list of one object a row), by the suffix.

    Values that JSON cannot hold (NaN, infinity) become null there.

    **Raises:** DseError for another suffix or where the file cannot be written; ValueError if lengths differ.
    """
    path = Path(path)
    check_suffix(path)
    writer = _WRITERS[path.suffix.lower()]
    table = pa.table({name: pa.array(np.asarray(values)) for name, values in columns.items()})
    with replacing(path) as temporary:
        try:
            writer(table, temporary)
        except OSError as error:
            raise DseError(f"{path}: cannot write: {error.strerror or error}") from None


def check_suffix(path: Path) -> None:
    """Refuse a file that `write_table` writes in no format. **Raises:** DseError."""
    if path.suffix.lower() not in _WRITERS:
        suffix = repr(path.suffix) if path.suffix else "no suffix"
        raise DseError(f"{path}: suffix: found {suffix}, expected {', '.join(_WRITERS)}")


def _write_parquet(table: pa.Table, path: Path) -> None:
    pyarrow.parquet.write_table(table, path, compression="zstd")


def _write_csv(table: pa.Table, path: Path) -> None:
    header = io.StringIO(newline="")
    csv.writer(header, lineterminator="\n").writerow(table.column_names)  # pyarrow would quote every name
    with path.open("wb") as file:
        file.write(header.getvalue().encode())
        pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(include_header=False))


def _write_json(table: pa.Table, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        separator = "\n"
        for batch in table.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist():
                file.write(separator + json.dumps({name: _plain(value) for name, value in row.items()}))
                separator = ",\n"
        file.write("\n]\n")


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".json": _write_json,
}
