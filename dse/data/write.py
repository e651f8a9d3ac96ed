"""Write files whole or not at all."""

import csv
import io
import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dse.errors import DseError


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A path to write to, in the same folder; it becomes `path` if the block ends well, else vanishes.

    A reader sees the old file or the new one, never a part. The path given keeps the suffix of `path`, for
    writers that choose a format by it. A link is written through; a pipe or device is written directly.

    **Raises:** DseError if the folder is missing or not writable, or `path` is a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise DseError(f"{path}: found a folder, expected a file name")
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()
    folder = target.parent
    if not folder.is_dir():
        raise DseError(f"{path}: found no folder {folder}, expected one that exists")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise DseError(f"{path}: folder {folder} is not writable")
    temporary = folder / f".{secrets.token_hex(4)}-{target.name}"
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_table(path: Path | str, columns: Mapping[str, Any]) -> None:
    """Write columns of equal length as Parquet, CSV or JSON (a list of one object a row), by the suffix.

    Values that JSON cannot hold (NaN, infinity) become null there.

    **Raises:** DseError for another suffix or where the file cannot be written; ValueError if lengths differ.
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        found = repr(path.suffix) if path.suffix else "no suffix"
        raise DseError(f"{path}: suffix: found {found}, expected {', '.join(_WRITERS)}")
    table = pa.table({name: pa.array(np.asarray(values)) for name, values in columns.items()})
    with replacing(path) as temporary:
        try:
            writer(table, temporary)
        except OSError as error:
            raise DseError(f"{path}: cannot write: {error.strerror or error}") from None


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
