"""The table that all readers of rows, measured times and results return: one row a configuration.

Columns of measured times: the parameters, `time_ms` (or `_us`, `_ns`, `_s`; `measured_s` and the like beside
predicted times), and optionally `status` (`ok` if the configuration ran), `min_ms` (the fastest repetition)
and other measurements. Rows are counted from 1.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from dse.data import safe_readers
from dse.errors import DseError

SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "s": 1.0}
_SPELLED = {"ms": "milli", "us": "micro", "ns": "nano", "s": ""}
_SUFFIX = {
    word: suffix
    for suffix, prefix in _SPELLED.items()
    for word in (suffix, f"{suffix}econd", f"{prefix}second", f"{prefix}seconds")
} | {"second": "s"}
_TRUTH = {"true": 1.0, "false": 0.0}


def suffix_of(unit: str, where: str) -> str:
    """Return the column suffix of a time unit: `us` for us, usecond and Microseconds.

    **Raises:** DseError that begins with `where` for anything else.
    """
    suffix = _SUFFIX.get(unit.strip().lower())
    if suffix is None:
        raise DseError(f"{where}: found unit {unit!r}, expected one of {', '.join(SECONDS)}")
    return suffix


def as_integers(values: np.ndarray) -> np.ndarray:
    """Convert numbers to int64 if all are whole, else to float64."""
    whole = np.all((values == np.floor(values)) & (np.abs(values) < 2**63))
    return values.astype(np.int64 if whole else np.float64)


@dataclass(frozen=True)
class Table:
    """An Arrow table read as NumPy arrays, with errors that name file, column and row."""

    path: Path
    table: pa.Table
    decimal: str = "."  # decimal sign of the file's numbers

    def __post_init__(self) -> None:
        if not self.table.num_rows:
            self.fail("rows", "found none, expected at least one")
        twice = [name for name in self.names if self.names.count(name) > 1]
        if twice:
            self.fail("columns", f"found {twice[0]} twice, expected each name once")

    @classmethod
    def of_rows(cls, path: Path, rows: Iterable[Any], decimal: str = ".") -> "Table":
        """Build a table of rows with differing fields."""
        rows = list(rows)
        for number, row in enumerate(rows, 1):
            if not isinstance(row, Mapping):
                raise DseError(f"{path}: row {number}: found {str(row)[:40]!r}, expected an object")
        names = dict.fromkeys(name for row in rows for name in row)
        safe_readers.check_size(path, len(names), len(rows))
        columns = {name: _column([row.get(name) for row in rows]) for name in names}
        return cls(path, pa.table(columns), decimal)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self.table.column_names

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.table.num_rows

    def fail(self, field: str, message: str) -> NoReturn:
        """Raise a DseError that names the file and the field."""
        raise DseError(f"{self.path}: {field}: {message}")

    def is_text(self, name: str) -> bool:
        """Whether a column holds anything but numbers."""
        kind, types = self.table.column(name).type, pa.types
        numeric = (types.is_null, types.is_integer, types.is_boolean, types.is_floating, types.is_decimal)
        return not any(test(kind) for test in numeric)

    def numbers(self, name: str) -> np.ndarray:
        """Read a column as integers, or as floats with NaN for empty cells."""
        column = self.table.column(name)
        if self.is_text(name):
            cells = enumerate(column.to_pylist(), start=1)
            return np.array([self._number(name, row, cell) for row, cell in cells])
        return _numbers(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column)

    def _number(self, name: str, row: int, cell: Any) -> float:
        if cell in (None, ""):
            return np.nan
        text = str(cell).strip().lower()
        if text in _TRUTH:
            return _TRUTH[text]
        ambiguous = self.decimal == "," and "." in text  # 1.234 may be a thousand
        try:
            return float("ambiguous" if ambiguous else text.replace(self.decimal, "."))
        except ValueError:
            sign = " with a decimal comma" if ambiguous else ""
            self.fail(f"{name}, row {row}", f"found {str(cell)!r}, expected a number{sign}")

    def complete(self, name: str) -> np.ndarray:
        """Read a column of numbers without empty cells."""
        values = self.numbers(name)
        wrong = ~np.isfinite(values)
        if wrong.any():
            cell = self.table.column(name)[int(np.argmax(wrong))].as_py()
            actual = "an empty cell" if cell in (None, "") else repr(cell)
            self.fail(f"{name}, row {np.argmax(wrong) + 1}", f"found {actual}, expected a number")
        return values

    def constant(self, name: str) -> int | float:
        """Read a column with a single value."""
        values = self.complete(name)
        other = values != values[0]
        if other.any():
            row, expected = np.argmax(other) + 1, f"the problem size {values[0]} of row 1"
            self.fail(f"{name}, row {row}", f"found {values[row - 1]}, expected {expected}")
        return int(values[0]) if values[0] == np.floor(values[0]) else float(values[0])

    def texts(self, name: str) -> np.ndarray:
        """Read a column as strings, empty for empty cells."""
        cells = self.table.column(name).to_pylist()
        return np.array(["" if cell is None else str(cell).strip() for cell in cells])

    def values(self, name: str) -> np.ndarray:
        """Read a column as integers, booleans, floats with NaN, or words with None."""
        column = self.table.column(name)
        kind = column.type
        if pa.types.is_boolean(kind):
            return column.cast(pa.int8()).to_numpy().astype(float) == 1
        if not self.is_text(name):
            return _numbers(column)
        words = column if pa.types.is_dictionary(kind) else _words(column).dictionary_encode()
        coded = words.combine_chunks() if words.num_chunks != 1 else words.chunk(0)
        names = np.array([*coded.dictionary.to_pylist(), None], object)
        return names[np.asarray(coded.indices.fill_null(len(names) - 1))]

    def seconds(self, kind: str) -> tuple[str, np.ndarray] | None:
        """Return the name of `time_ms` or the like, and its values in seconds, NaN for empty cells."""
        for unit, scale in SECONDS.items():
            if f"{kind}_{unit}" in self.names:
                return f"{kind}_{unit}", self.numbers(f"{kind}_{unit}") * scale
        return None


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Convert a column of numbers to integers, or to floats with NaN for empty cells."""
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy()
    return column.cast(pa.float64()).to_numpy()


def _column(cells: list[Any]) -> pa.Array:
    try:
        return pa.array(cells)
    except (pa.ArrowException, OverflowError):  # mixed numbers and words
        return pa.array([None if cell is None else str(cell) for cell in cells])


def _words(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert the cells of a column to words."""
    if not pa.types.is_nested(column.type) and not pa.types.is_binary(column.type):
        with suppress(pa.ArrowException):
            return column.cast(pa.string())
    return pa.chunked_array(
        [[None if cell is None else str(cell) for cell in column.to_pylist()]], pa.string()
    )
