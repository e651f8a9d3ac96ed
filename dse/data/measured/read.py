"""Read measured times of a tuning space: one row a configuration, its parameters and its time.

`dse.data.measured.formats` reads the files; here their columns are matched to a kernel's parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from dse.data.measured import nsight
from dse.data.measured.formats import read
from dse.data.table import SECONDS, Table, as_integers
from dse.errors import DseError, InputWarning
from dse.kernels.counts import Alias, Counts

OCCUPANCY = {"occupancy": 1.0, "sm__warps_active.avg.pct_of_peak_sustained_active": 1e-2}  # to 0..1


LONGEST_SECONDS = 1e9  # tuners write 1e20 ms and the like for failures
PREDICTED = "bottleneck"  # a column of predictions only: `time_s` in the same file is predicted


@dataclass(frozen=True)
class Measured:
    """The measured configurations of a kernel. All arrays have one entry a row of the file, in its order."""

    path: Path
    space: str  # whose parameter names the file uses: one of the kernel's spaces, or the kernel itself
    parameters: dict[str, np.ndarray]  # by the kernel's names, in its order, constants too; numbers, or words
    # in a space without a description
    problem: dict[str, int | float]  # problem sizes stated by the file or its space
    time_s: np.ndarray  # the tuner's result, for scoring; NaN where the configuration failed
    min_s: np.ndarray | None  # the fastest repetition, for fitting; NaN likewise
    ok: np.ndarray
    status: np.ndarray  # "ok", "compile", "runtime", ... as in the file
    occupancy: np.ndarray | None  # measured, 0..1; NaN where unknown
    # Other numbers, by the file's names; NaN where missing.
    counters: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def fastest_s(self) -> np.ndarray:
        """`min_s` if the file has it, else `time_s`: a cold first repetition inflates the mean."""
        return self.time_s if self.min_s is None else self.min_s

    def rows(self, index: np.ndarray) -> Measured:
        """Select rows by index."""
        arrays = {"time_s": self.time_s, "ok": self.ok, "status": self.status}
        arrays |= {"min_s": self.min_s, "occupancy": self.occupancy}
        return replace(
            self,
            parameters={name: values[index] for name, values in self.parameters.items()},
            counters={name: values[index] for name, values in self.counters.items()},
            **{name: None if values is None else values[index] for name, values in arrays.items()},
        )

    def where(self, values: Mapping[str, float]) -> Measured:
        """Select the rows with these parameter values; other names are ignored.

        **Raises:** DseError if there is none.
        """
        selected = np.ones(len(self.ok), bool)
        for name in values.keys() & self.parameters.keys():
            selected &= self.parameters[name] == values[name]
        if not selected.any():
            stated = ", ".join(f"{name}={value}" for name, value in values.items())
            raise DseError(f"{self.path}: found no row with {stated}, expected at least one")
        return self.rows(np.flatnonzero(selected))


def load(path: str | Path, description: Counts) -> Measured:
    """Read a file whose columns are named as in one of the kernel's `spaces`.

    If several spaces fit, the folder's name decides, else the number of columns used. Without a `status`
    column, configurations with a time ran. Messages count rows from 1, without the header.

    **Units:** seconds, from the suffix of the time column or as the format states.
    **Raises:** DseError, one line that names the file and the column, and the row of a bad cell.
    """
    table = _only_measured(read(Path(path)))
    alias, missing = _fitting(table, description)
    if missing and nsight.KERNEL in table.names:
        table = nsight.with_parameters(table, description)
        alias, missing = _fitting(table, description)
    if missing:
        table.fail(
            "columns",
            f"found no {', '.join(missing)}, expected the parameters of {description.name}"
            + (f" as in {alias.name}" if alias.name != description.name else ""),
        )
    columns = _columns(alias, description)
    fixed = dict(alias.set)

    parameters = {}
    for name, allowed in description.space.values.items():
        if name in fixed:
            parameters[name] = np.full(table.rows, fixed[name])
        else:
            values = table.complete(columns[name])
            whole = all(isinstance(value, int) for value in allowed)
            parameters[name] = as_integers(values) if whole else values.astype(np.float64)

    problem = {}
    for name, _ in description.problem:
        if name in fixed:
            problem[name] = fixed[name]
        elif columns[name] in table.names:
            problem[name] = table.constant(columns[name])
    return _measured(table, alias.name, parameters, problem, set(columns.values()))


def load_space(path: str | Path, names: Sequence[str]) -> Measured:
    """Read a file of a space known only by its parameter names, as in a T1 file.

    Without names, the columns before the first time or status are the parameters. A parameter with
    non-numeric values is kept as words. `space` is the name of the file.

    **Raises:** DseError, as `load`.
    """
    table = _only_measured(read(Path(path)))
    names = names or _before_times(table)
    missing = [name for name in names if name not in table.names]
    if missing:
        table.fail("columns", f"found no {', '.join(missing)}, expected {', '.join(names)}")
    parameters = {name: _numbers_or_words(table, name) for name in names}
    return _measured(table, table.path.name.partition(".")[0], parameters, {}, set(names))


def _before_times(table: Table) -> list[str]:
    ends = {f"{kind}_{unit}" for kind in ("time", "min", "measured") for unit in SECONDS} | {"status"}
    names = []
    for name in table.names:
        if name in ends:
            break
        names.append(name)
    if not names:
        table.fail("columns", "found none before the times, expected the parameters there")
    return names


def _measured(
    table: Table,
    space: str,
    parameters: dict[str, np.ndarray],
    problem: dict[str, int | float],
    used: set[str],
) -> Measured:
    """Add times and all other measurements to the parameters, which were read from the columns `used`."""
    time_s, status = _times(table)
    ok = np.isfinite(time_s)
    occupancy = next((name for name in OCCUPANCY if name in table.names), None)
    min_s = None
    if table.seconds("time") and (minimum := table.seconds("min")):
        min_s = np.where(ok & np.isfinite(minimum[1]), minimum[1], time_s)
    timed = {f"{kind}_{unit}" for kind in ("measured", "time", "min") for unit in SECONDS}
    others = [name for name in table.names if name not in used | timed and not table.is_text(name)]
    return Measured(
        path=table.path,
        space=space,
        parameters=parameters,
        problem=problem,
        time_s=time_s,
        min_s=min_s,
        ok=ok,
        status=status,
        occupancy=table.numbers(occupancy) * OCCUPANCY[occupancy] if occupancy else None,
        counters={name: table.numbers(name).astype(np.float64) for name in others},
    )


def _only_measured(table: Table) -> Table:
    """Drop rows without a measured time from a file of predictions."""
    timed = table.seconds("measured")
    if timed is None or "status" in table.names or PREDICTED not in table.names:
        return table
    return replace(table, table=table.table.filter(pa.array(np.isfinite(timed[1]))))


def _numbers_or_words(table: Table, name: str) -> np.ndarray:
    try:
        return as_integers(table.complete(name))
    except DseError:
        words = table.texts(name)
        if not np.all(words != ""):
            row = np.argmax(words == "") + 1
            table.fail(f"{name}, row {row}", "found an empty cell, expected a value")
        return words


def _times(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Read times in seconds, NaN where a configuration failed, and statuses."""
    timed = table.seconds("measured")
    if timed is None and PREDICTED in table.names:
        table.fail("columns", f"found predicted times only (there is {PREDICTED!r}), expected measured_s")
    timed = timed or table.seconds("time") or table.seconds("min")
    if timed is None:
        table.fail("columns", f"found no time, expected one of {', '.join(f'time_{u}' for u in SECONDS)}")
    column, time_s = timed
    absurd = np.isfinite(time_s) & (time_s > LONGEST_SECONDS)
    if absurd.any():
        problem = f"{column}: found {absurd.sum()} of {len(absurd)} rows with a time of over 30 years"
        warnings.warn(f"{table.path}: {problem}, treated as failed", InputWarning, stacklevel=2)
        time_s = np.where(absurd, np.nan, time_s)
    has_time = np.isfinite(time_s)
    if "status" in table.names:
        status = table.texts("status")
        status = np.where(absurd & (np.char.lower(status) == "ok"), "failed", status)
        ok = np.char.lower(status) == "ok"
        if has_time.any() and not ok.any():
            actual = str(status[has_time][0])
            table.fail("status", f"found {actual!r} and no 'ok', expected 'ok' where it ran")
    else:
        status, ok = np.where(has_time, "ok", "failed"), has_time
    for wrong, what in ((ok & ~has_time, "no time"), (ok & (time_s <= 0), "a time of 0 or less")):
        if wrong.any():
            row = np.argmax(wrong) + 1
            table.fail(f"{column}, row {row}", f"found {what}, expected one above 0, since status is ok")
    return np.where(ok, time_s, np.nan), status


def _columns(alias: Alias, description: Counts) -> dict[str, str]:
    """Map each parameter and problem size not fixed by the space to its column."""
    columns = {name: name for name in (*description.space.values, *dict(description.problem))}
    columns |= {target: column for column, target in alias.rename}
    return {name: column for name, column in columns.items() if name not in dict(alias.set)}


def _fitting(table: Table, description: Counts) -> tuple[Alias, list[str]]:
    """Return the space with the fewest columns missing in the file, and these columns."""

    def missing(alias: Alias) -> list[str]:
        columns = _columns(alias, description)
        needed = [column for name, column in columns.items() if name in description.space.values]
        needed += [column for column, _ in alias.rename if column not in needed]
        return [column for column in needed if column not in table.names]

    folder = table.path.resolve().parent.name

    def used(alias: Alias) -> int:
        return len(set(_columns(alias, description).values()).intersection(table.names))

    # The first of equals wins: the kernel's own names come last.
    aliases = (*description.spaces, own := Alias(description.name))
    if not any(map(used, aliases)):
        return own, missing(own)
    best = min(aliases, key=lambda alias: (len(missing(alias)), alias.name != folder, -used(alias)))
    return best, missing(best)
