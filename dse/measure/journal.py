"""Journal of a measurement: each row is on disk before the next begins.

A file of JSON lines beside the table collects the rows, after a first line that describes the run. At the
end, or when time is up, they become the table. An interrupted run continues from either file.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from dse.core.files import MOST_TEXT_BYTES, open_own, own, parse_json, parse_json_lines, read_bytes, replacing
from dse.data import safe_readers
from dse.errors import DseError

Row = dict[str, Any]
METADATA = b"dse.measured"
AGAIN = ("runtime", "timeout")  # measured again: the GPU or the driver may have caused them
SUFFIX = ".partial.jsonl"


class Journal:
    """The rows measured so far for the table `path`, in a run that `about` describes.

    `about` has `gpu`, `sweep`, and for each of `kernels` values that must be equal to continue a run; others
    (driver, compiler, date) may differ.

    **Raises:** DseError if the table's folder is missing, or if the files are of another run.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path, self.about = path, dict(about)
        self.lines = own(path.with_name(path.name + SUFFIX))
        if path.suffix != ".parquet":
            raise DseError(f"{path}: suffix: found {path.suffix!r}, expected .parquet")
        if not path.parent.is_dir():
            raise DseError(f"{path}: found no folder {path.parent}, expected one that exists")
        self.rows = self._earlier()
        self._write()

    def _write(self) -> None:
        text = "".join(json.dumps(row) + "\n" for row in (self.about, *self.rows))
        with replacing(self.lines) as temporary:
            temporary.write_text(text)

    def _earlier(self) -> list[Row]:
        if self.lines.is_file():
            about, rows = _read_lines(self.lines)
            where = self.lines
        elif self.path.is_file():
            about, rows = read(self.path)
            where = self.path
        else:
            return []
        ours, theirs = json.loads(json.dumps(self.about)), about.get("kernels", {})
        for name in ("gpu", "sweep"):
            _same(where, name, about.get(name), ours[name])
        for kernel in ours["kernels"].keys() & theirs.keys():
            for name, expected in ours["kernels"][kernel].items():
                _same(where, f"{kernel}: {name}", theirs[kernel].get(name), expected)
        self.about["kernels"] = theirs | self.about["kernels"]
        for number, row in enumerate(rows, 1):
            if not isinstance(row.get("kernel"), str) or not isinstance(row.get("status"), str):
                raise DseError(f"{where}: row {number}: found no kernel and status, expected a measurement")
        return rows

    def done(self, kernel: str, names: Sequence[str]) -> set[tuple[Any, ...]]:
        """Find the configurations of a kernel that earlier runs measured, by the values of these columns.

        Those that broke or hung are removed with all their rows, to be measured again.
        """

        def of(row: Row) -> tuple[Any, ...] | None:
            return tuple(row.get(name) for name in names) if row["kernel"] == kernel else None

        again = {of(row) for row in self.rows if row["status"] in AGAIN} - {None}
        if again:
            self.rows = [row for row in self.rows if of(row) not in again]
            self._write()
        return {key for row in self.rows if (key := of(row)) is not None}

    def add(self, row: Row) -> None:
        """Add a row; it is on disk when this returns."""
        self.rows.append(row)
        with open_own(self.lines) as file:
            file.write(f"{json.dumps(row)}\n".encode())

    def close(self, *, done: bool) -> None:
        """Write the table; if all is `done`, delete the journal."""
        if self.rows:
            write(self.path, self.about, self.rows)
        if done or not self.rows:
            self.lines.unlink(missing_ok=True)


def _same(where: Path, name: str, stated: Any, expected: Any) -> None:
    if stated != expected:
        raise DseError(f"{where}: {name}: found {stated}, expected {expected}; delete it to begin again")


def _read_lines(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """Read the lines of a journal; the last may be truncated."""
    rows = parse_json_lines(read_bytes(path, MOST_TEXT_BYTES).decode("utf-8", errors="replace"), str(path))
    return _checked(path, rows[0], rows[1:]) if rows else ({}, [])


def write(path: Path, about: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write rows as Parquet; rows may lack columns."""
    columns = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: pa.array([row.get(name) for row in rows]) for name in columns})
    with replacing(path) as temporary:
        table = table.replace_schema_metadata({METADATA: json.dumps(dict(about))})
        pyarrow.parquet.write_table(table, temporary, compression="zstd")


def read(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """Read a file of `write`. DseError for any other file."""
    if not path.is_file():
        raise DseError(f"{path}: found no file, expected what `dse measure space` wrote")
    table = safe_readers.parquet(path)
    metadata = (table.schema.metadata or {}).get(METADATA)
    if metadata is None:
        raise DseError(f"{path}: found another file, expected what `dse measure space` wrote")
    with safe_readers.refused(path):
        about = parse_json(metadata.decode(), str(path))
        rows = [
            {name: value for name, value in row.items() if value is not None} for row in table.to_pylist()
        ]
    return _checked(path, about, rows)


def _checked(path: Path, about: Any, rows: list[Any]) -> tuple[dict[str, Any], list[Row]]:
    """Check the contents of a file. **Raises:** DseError if they are of another kind."""
    kernels = about.get("kernels") if isinstance(about, dict) else None
    if not isinstance(kernels, dict) or not all(isinstance(kernel, dict) for kernel in kernels.values()):
        raise DseError(f"{path}: found another file, expected what `dse measure space` wrote")
    for name in ("gpu", "sweep"):
        if name not in about:
            raise DseError(f"{path}: {name}: found nothing, expected a value")
    if not all(isinstance(row, dict) for row in rows):
        raise DseError(f"{path}: rows: found one that is no object, expected measurements")
    kinds: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        for name, value in row.items():
            expected = kinds.setdefault(name, "a number" if name.endswith("_ms") else _kind(value))
            if _kind(value) != expected or expected not in ("a number", "text"):
                stated = expected if expected in ("a number", "text") else "a number or text"
                raise DseError(f"{path}: row {number}: {name}: found {value!r}, expected {stated}")
    return about, rows


def _kind(value: Any) -> str:
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) >= 2**63):
        return "neither"
    return "a number" if isinstance(value, int | float) else "text" if isinstance(value, str) else "neither"
