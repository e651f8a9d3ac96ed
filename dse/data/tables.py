"""Results as rows, files, Arrow tables, data frames, and tables in notebooks."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dse.core.files import replacing
from dse.core.optional import needs
from dse.data.columns import heading, metadata
from dse.errors import DseError, printable

if TYPE_CHECKING:  # takes 0.1 s
    import pyarrow as pa

SHOWN = 20  # rows in a notebook
TIMES = ("refitted_s", "measured_s", "time_s")  # the first present decides
REPR = 8  # values of a row in one line


class Result:
    """Base class of results: `rows()`, for files, data frames and notebooks.

    Columns have the names and units of `dse.data.columns`.
    """

    @property
    def units(self) -> Mapping[str, str]:
        """Units of columns missing in `dse.data.columns`."""
        return {}

    @property
    def hidden(self) -> tuple[str, ...]:
        """Columns omitted in displayed tables."""
        return ()

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return the first `top` rows (default: all) as dictionaries by column."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.rows())} rows>"

    def to_arrow(self) -> "pa.Table":
        """Return all rows as an Arrow table, with units and meanings as metadata."""
        return arrow(_columns(self.rows()), self.units)

    def to_pandas(self) -> Any:
        """Return all rows as a pandas DataFrame. **Raises:** DseError where pandas is not installed."""
        with needs("pandas", "pip install pandas"):
            import pandas as pd
        return pd.DataFrame(self.rows())

    def write(self, path: Path | str) -> None:
        """Write all rows as Parquet, CSV or JSON, by the suffix. **Raises:** DseError as `write_table`."""
        write_rows(Path(path), self.rows(), self.units)

    def _repr_html_(self) -> str:
        """Return a table of the first rows, for notebooks."""
        rows = self.rows(SHOWN + 1)
        columns = [name for name in _names(rows) if name not in self.hidden]
        cells = [[f"<th>{_heading(name, self.units)}</th>" for name in columns]]
        cells += [[f"<td>{_cell(row.get(name))}</td>" for name in columns] for row in rows[:SHOWN]]
        lines = "".join(f"<tr>{''.join(line)}</tr>" for line in cells)
        more = "<p>and more: <code>.rows()</code>, <code>.to_pandas()</code></p>" if len(rows) > SHOWN else ""
        return f"<table>{lines}</table>{more}"


class ConfigurationResult(Result):
    """A result with one row a configuration: it has a length, rows by index, and a best one."""

    def __len__(self) -> int:
        return len(self.rows())

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return one row."""
        return self.rows(index + 1 if index >= 0 else None)[index]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    @property
    def best(self) -> dict[str, Any] | None:
        """The row with the least time, measured if there are measured times; None without any time."""
        name = next((name for name in TIMES if name in (self.rows(1) or [{}])[0]), "time_s")
        timed = [row for row in self.rows() if row.get(name) is not None and math.isfinite(row[name])]
        return min(timed, key=lambda row: row[name], default=None)

    def __repr__(self) -> str:
        first = [f"{name}={value}" for name, value in (self.best or {}).items() if name not in self.hidden]
        return f"<{type(self).__name__} of {len(self):,} rows, the best: {', '.join(first[:REPR])}>"


class Rows(Result, list[dict[str, Any]]):
    """A `Result` that is a list of rows."""

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return the first `top` rows (default: all)."""
        return list(self[:top])


class Columns(Result, dict[str, np.ndarray]):
    """A `Result` that is a dictionary of columns, [rows] each."""

    def rows(self, top: int | None = None) -> list[dict[str, Any]]:
        """Return the first `top` rows (default: all)."""
        return rows_of({name: values[:top] for name, values in self.items()})


def rows_of(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Turn columns of equal length into rows of Python's own values."""
    lists = [values.tolist() if isinstance(values, np.ndarray) else values for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in _names(rows)}


def _heading(name: str, units: Mapping[str, str]) -> str:
    header, unit = heading(name, units.get(name))
    return escape(header if unit == "1" else f"{header} [{unit}]")


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    return escape(text)


def write_table(path: Path | str, columns: Mapping[str, Any], units: Mapping[str, str] | None = None) -> None:
    """Write columns of equal length as Parquet, CSV or JSON (a list of one object a row), by the suffix.

    NaN and infinity become null in JSON. Parquet has units and meanings as metadata, from
    `dse.data.columns` and `units`.

    **Raises:** DseError for another suffix or if the file cannot be written; ValueError if lengths differ.
    """
    path = Path(path)
    check_suffix(path)
    writer = _WRITERS[path.suffix.lower()]
    table = arrow(columns, units)
    with replacing(path) as temporary:
        try:
            writer(table, temporary)
        except OSError as error:
            raise DseError(f"{path}: cannot write: {error.strerror or error}") from None


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], units: Mapping[str, str] | None = None) -> None:
    """Write rows like `write_table`; a row may lack columns."""
    write_table(path, _columns(rows), units)


def check_suffix(path: Path) -> None:
    """Reject a file whose suffix `write_table` does not support. **Raises:** DseError."""
    if path.suffix.lower() not in _WRITERS:
        suffix = repr(path.suffix) if path.suffix else "no suffix"
        raise DseError(f"{path}: suffix: found {suffix}, expected {', '.join(_WRITERS)}")


def arrow(columns: Mapping[str, Any], units: Mapping[str, str] | None = None) -> "pa.Table":
    """Build an Arrow table of columns of equal length, with units and meanings if known.

    Cells that are lists become text, for CSV.
    """
    import pyarrow as pa

    def text(cell: Any) -> Any:
        return "; ".join(map(str, cell)) if isinstance(cell, list | tuple) else cell

    flat = {
        name: [text(cell) for cell in values] if isinstance(values, list) else values
        for name, values in columns.items()
    }
    arrays = {name: pa.array(np.asarray(values)) for name, values in flat.items()}
    fields = [field(name, array.type, (units or {}).get(name)) for name, array in arrays.items()]
    return pa.Table.from_arrays(list(arrays.values()), schema=pa.schema(fields))


def field(name: str, kind: "pa.DataType", unit: str | None = None) -> "pa.Field":
    """Return the Arrow field of a column, with `unit` and `meaning` as metadata if known."""
    import pyarrow as pa

    return pa.field(name, kind, metadata=metadata(name, unit) or None)


def _write_parquet(table: "pa.Table", path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path, compression="zstd")


def harmless(cell: Any) -> Any:
    """Make a CSV cell safe: escape control characters, and prefix formulas of spreadsheets with '."""
    if not isinstance(cell, str):
        return cell
    formula = cell.startswith(_FORMULA) and not _NUMBERS.fullmatch(cell)
    return ("'" if formula else "") + printable(cell)


_FORMULA = ("=", "+", "-", "@")
_NUMBERS = re.compile(r"[-+0-9.eE ]+")


def _write_csv(table: "pa.Table", path: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv

    for i, (name, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if pa.types.is_string(kind):
            table = table.set_column(i, name, pa.array(map(harmless, table[i].to_pylist()), kind))
    header = io.StringIO(newline="")
    names = map(harmless, table.column_names)
    csv.writer(header, lineterminator="\n").writerow(names)  # pyarrow would quote every name
    with path.open("wb") as file:
        file.write(header.getvalue().encode())
        pyarrow.csv.write_csv(table, file, pyarrow.csv.WriteOptions(include_header=False))


def _write_json(table: "pa.Table", path: Path) -> None:
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


_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".json": _write_json,
}
