"""Times of a matrix kernel's configurations: read from a file."""

from pathlib import Path

import numpy as np

from dse.matrix.configuration import PARAMETERS
from dse.matrix.refine import Timed
from dse.matrix.table import Kernel
from dse.measured.formats import read as read_table
from dse.measured.table import SECONDS, Table

TIMES = {"seconds": 1.0} | {
    name: scale for unit, scale in SECONDS.items() for name in (f"time_{unit}", unit)
}  # columns, in seconds


def read(path: Path, kernel: Kernel) -> Timed:
    """Read measured times: columns M, the six parameters and a time; an infinite one did not run.

    **Raises:** DseError, one line with column and row, for a column that is missing, a value that is not of
    the kernel's space, or a time that is no number above 0.
    """
    table = read_table(path)
    for name in ("M", *PARAMETERS):
        if name not in table.names:
            table.fail("columns", f"found no {name}, expected M, {', '.join(PARAMETERS)} and a time")
    timed = next((name for name in TIMES if name in table.names), None)
    if timed is None:
        table.fail("columns", f"found no time, expected one of {', '.join(TIMES)}")
    tokens = table.complete("M")
    _refuse(table, "M", (tokens < 1) | (tokens != np.floor(tokens)), "a whole number of at least 1")
    configurations = kernel.configurations
    columns = []
    for name, allowed in zip(PARAMETERS, configurations.T, strict=True):
        column, values = table.complete(name), np.unique(allowed)
        expected = f"one of {', '.join(map(str, values))}, as the tuner of {kernel.name} tries"
        _refuse(table, name, ~np.isin(column, values), expected)
        columns.append(column.astype(int))
    seconds = table.numbers(timed).astype(float) * TIMES[timed]
    _refuse(table, timed, ~(seconds > 0), "a time above 0, or inf where it did not run")
    known = {tuple(row): place for place, row in enumerate(configurations.tolist())}
    places = np.array([known[row] for row in zip(*(column.tolist() for column in columns), strict=True)])
    return Timed(tokens.astype(int), places, seconds)


def _refuse(table: Table, name: str, wrong: np.ndarray, expected: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        cell = table.table.column(name)[row].as_py()
        found = "no number" if cell in (None, "") else repr(cell)
        table.fail(f"{name}, row {row + 1}", f"found {found}, expected {expected}")
