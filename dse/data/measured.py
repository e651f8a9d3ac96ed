"""Read measured times of a tuning space: one row a configuration, its parameters and its time.

CSV (gzipped or not) and Parquet. Columns: the parameters, `time_ms` (or `_us`, `_ns`, `_s`), and where there
are such: `status` (`ok` where the configuration ran), `min_ms` (fastest repetition), an occupancy.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dse.describe import Alias, Description
from dse.errors import DseError

SUFFIXES = (".csv", ".csv.gz", ".parquet")
SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "s": 1.0}
OCCUPANCY = {"occupancy": 1.0, "sm__warps_active.avg.pct_of_peak_sustained_active": 1e-2}  # to 0..1
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"


@dataclass(frozen=True)
class Measured:
    """The measured configurations of a kernel. Every array has one entry a row of the file, in its order."""

    path: Path
    space: str  # under whose names the file has the parameters: one of the kernel's spaces, or its own name
    parameters: dict[str, np.ndarray]  # by our names, in the order of the kernel's space, constants too
    problem: dict[str, int | float]  # the problem sizes that the file or its space states
    time_s: np.ndarray  # the tuner's result, for scoring; NaN where the configuration failed
    min_s: np.ndarray | None  # the fastest repetition, for fitting; NaN likewise
    ok: np.ndarray
    status: np.ndarray  # "ok", "compile", "runtime", ... as the file words it
    occupancy: np.ndarray | None  # measured, 0..1; NaN where unknown

    @property
    def fastest_s(self) -> np.ndarray:
        """`min_s` where the file has it, else `time_s`: a cold first repetition inflates the mean."""
        return self.time_s if self.min_s is None else self.min_s

    def rows(self, chosen: np.ndarray) -> Measured:
        """Some of the rows, by their numbers."""
        arrays = {"time_s": self.time_s, "ok": self.ok, "status": self.status}
        arrays |= {"min_s": self.min_s, "occupancy": self.occupancy}
        return replace(
            self,
            parameters={name: values[chosen] for name, values in self.parameters.items()},
            **{name: None if values is None else values[chosen] for name, values in arrays.items()},
        )


def load(path: str | Path, description: Description) -> Measured:
    """Read one file, under whichever of the kernel's `spaces` its columns are named by.

    Of several spaces that fit, the one that the folder is named after is taken, else the one that takes
    most from the file. Without a `status` column a configuration ran if it has a time. Rows in messages
    are counted from 1, the header left out.

    **Units:** seconds, by the suffix of the time column.
    **Raises:** DseError, one line that names the file and the column, and the row of a bad cell.
    """
    path = Path(path)
    table = _Table(path, _read(path))
    alias = _fitting(table, description)
    columns = _columns(alias, description)
    fixed = dict(alias.set)

    parameters = {}
    for name, allowed in description.space.values.items():
        if name in fixed:
            parameters[name] = np.full(table.rows, fixed[name])
        else:
            values = table.complete(columns[name])
            whole = all(isinstance(each, int) for each in allowed) and np.all(values == np.floor(values))
            parameters[name] = values.astype(np.int64) if whole else values.astype(np.float64)

    problem = {}
    for name, _ in description.problem:
        if name in fixed:
            problem[name] = fixed[name]
        elif columns[name] in table.names:
            problem[name] = table.constant(columns[name])

    time_s, status = _times(table)
    ok = np.isfinite(time_s)
    found = next((name for name in OCCUPANCY if name in table.names), None)
    minimum = table.seconds("min") if table.seconds("time") else None
    return Measured(
        path=path,
        space=alias.name,
        parameters=parameters,
        problem=problem,
        time_s=time_s,
        min_s=np.where(ok, minimum[1], np.nan) if minimum else None,
        ok=ok,
        status=status,
        occupancy=table.numbers(found) * OCCUPANCY[found] if found else None,
    )


def _times(table: _Table) -> tuple[np.ndarray, np.ndarray]:
    """Times in seconds, NaN where a configuration failed, and each one's status."""
    timed = table.seconds("time") or table.seconds("min")
    if timed is None:
        table.fail("columns", f"found no time, expected one of {', '.join(f'time_{u}' for u in SECONDS)}")
    column, time_s = timed
    has_time = np.isfinite(time_s)
    if "status" in table.names:
        status = table.texts("status")
        ok = np.char.lower(status) == "ok"
        if has_time.any() and not ok.any():
            found = str(status[has_time][0])
            table.fail("status", f"found {found!r} and no 'ok', expected 'ok' where it ran")
    else:
        status, ok = np.where(has_time, "ok", "failed"), has_time
    for wrong, what in ((ok & ~has_time, "no time"), (ok & (time_s <= 0), "a time of 0 or less")):
        if wrong.any():
            row = np.argmax(wrong) + 1
            table.fail(f"{column}, row {row}", f"found {what}, expected one above 0, since status is ok")
    return np.where(ok, time_s, np.nan), status


def _columns(alias: Alias, description: Description) -> dict[str, str]:
    """The column of each parameter and problem size that the space does not fix."""
    columns = {name: name for name in (*description.space.values, *dict(description.problem))}
    columns |= {target: column for column, target in alias.rename}
    return {name: column for name, column in columns.items() if name not in dict(alias.set)}


def _fitting(table: _Table, description: Description) -> Alias:
    """The space whose columns the file has."""

    def missing(alias: Alias) -> list[str]:
        columns = _columns(alias, description)
        needed = [column for name, column in columns.items() if name in description.space.values]
        needed += [column for column, _ in alias.rename if column not in needed]
        return [column for column in needed if column not in table.names]

    folder = table.path.resolve().parent.name

    def taken(alias: Alias) -> int:
        return len(set(_columns(alias, description).values()).intersection(table.names))

    # of equals the first is taken: the kernel's own names come last
    aliases = (*description.spaces, Alias(description.name))
    best = min(
        aliases,
        key=lambda alias: (len(missing(alias)), alias.name != folder, -taken(alias)),
    )
    if missing(best):
        table.fail(
            "columns",
            f"found no {', '.join(missing(best))}, expected the parameters of {description.name}"
            + (f" as in {best.name}" if best.name != description.name else ""),
        )
    return best


def _read(path: Path) -> pa.Table:
    """The table, whatever the suffix says of its compression."""
    if not path.name.lower().endswith(SUFFIXES):
        raise DseError(f"{path}: suffix: found {path.suffix!r}, expected {', '.join(SUFFIXES)}")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
        if magic == _PARQUET:
            return pyarrow.parquet.ParquetFile(path).read()
        if path.suffix.lower() == ".parquet":
            raise DseError(f"{path}: cannot read: found no Parquet file, expected one")
        with gzip.open(path) if magic.startswith(_GZIP) else path.open("rb") as file:
            return pyarrow.csv.read_csv(file)
    except (OSError, EOFError, zlib.error, pa.ArrowException, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        raise DseError(f"{path}: cannot read: {reason}") from None


@dataclass(frozen=True)
class _Table:
    """An Arrow table that answers with NumPy arrays, or with an error that names file, column and row."""

    path: Path
    table: pa.Table

    def __post_init__(self) -> None:
        if not self.table.num_rows:
            self.fail("rows", "found none, expected at least one")
        twice = [name for name in self.names if self.names.count(name) > 1]
        if twice:
            self.fail("columns", f"found {twice[0]} twice, expected each name once")

    @property
    def names(self) -> list[str]:
        return self.table.column_names

    @property
    def rows(self) -> int:
        return self.table.num_rows

    def fail(self, field: str, message: str) -> NoReturn:
        raise DseError(f"{self.path}: {field}: {message}")

    def numbers(self, name: str) -> np.ndarray:
        """A column as integers, or as floats with NaN where a cell is empty."""
        column = self.table.column(name)
        kind = column.type
        if pa.types.is_null(kind):
            return np.full(self.rows, np.nan)
        if pa.types.is_integer(kind):
            return column.to_numpy()
        if pa.types.is_boolean(kind):
            return column.cast(pa.int8()).to_numpy()
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return column.cast(pa.float64()).to_numpy()
        cells = enumerate(column.to_pylist(), start=1)
        return np.array([self._number(name, row, cell) for row, cell in cells])

    def _number(self, name: str, row: int, cell: Any) -> float:
        try:
            return float(cell) if cell not in (None, "") else np.nan
        except (TypeError, ValueError):
            self.fail(f"{name}, row {row}", f"found {str(cell)!r}, expected a number")

    def complete(self, name: str) -> np.ndarray:
        """A column of numbers with no cell empty."""
        values = self.numbers(name)
        wrong = ~np.isfinite(values)
        if wrong.any():
            cell = self.table.column(name)[int(np.argmax(wrong))].as_py()
            found = "an empty cell" if cell in (None, "") else repr(cell)
            self.fail(f"{name}, row {np.argmax(wrong) + 1}", f"found {found}, expected a number")
        return values

    def constant(self, name: str) -> int | float:
        """The one value of a column."""
        values = self.complete(name)
        other = values != values[0]
        if other.any():
            row, expected = np.argmax(other) + 1, f"the problem size {values[0]} of row 1"
            self.fail(f"{name}, row {row}", f"found {values[row - 1]}, expected {expected}")
        return int(values[0]) if values[0] == np.floor(values[0]) else float(values[0])

    def texts(self, name: str) -> np.ndarray:
        """A column as strings, empty where a cell is."""
        cells = self.table.column(name).to_pylist()
        return np.array(["" if cell is None else str(cell).strip() for cell in cells])

    def seconds(self, kind: str) -> tuple[str, np.ndarray] | None:
        """`time_ms` or the like: its name, and its values in seconds, NaN where a cell is empty."""
        for unit, scale in SECONDS.items():
            if f"{kind}_{unit}" in self.names:
                return f"{kind}_{unit}", self.numbers(f"{kind}_{unit}") * scale
        return None
