"""A kernel's tuning space cut down to the configurations that a file lists: what `-o` of a command wrote."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from dse.core.space.listed import AllowedRows
from dse.core.space.space import Space
from dse.data.measured.file import File
from dse.data.measured.formats import FORMATS, read
from dse.errors import DseError
from dse.kernels.description import Description

MOST = 1_000_000  # configurations of a file


def is_table(path: Path) -> bool:
    """Whether a file is a table of configurations, and not a problem in T1 form."""
    try:
        file = File.of(path)
        return not file.is_json or any(form.fits(file) for form in FORMATS)
    except (DseError, ValueError):
        return path.suffix.lower() != ".json"


def with_configurations(description: Description, path: Path) -> Description:
    """Leave of a kernel's space the configurations of a file, by the kernel's own names of its parameters.

    A file with a column `kernel` is read where it names this one. Parameters that the file lacks keep their
    values, and the kernel's constraints hold still.

    **Raises:** DseError if it cannot be read, or has none of the kernel's parameters.
    """
    table = read(path)
    if "kernel" in table.names:
        mine = table.texts("kernel") == description.name
        if not mine.any():
            found = ", ".join(sorted(set(table.texts("kernel").tolist())))
            table.fail("kernel", f"found {found}, expected {description.name}")
        table = replace(table, table=table.table.filter(mine))
    names = [name for name in description.space.values if name in table.names]
    if not names:
        table.fail("columns", f"found none of {', '.join(description.space.values)}, expected them")
    columns = [table.complete(name) for name in names]
    rows = sorted(set(zip(*(_whole(column).tolist() for column in columns), strict=True)))
    if len(rows) > MOST:
        table.fail("rows", f"found {len(rows):,} configurations, expected at most {MOST:,}")
    values = dict(description.space.values)
    values |= {
        name: tuple(sorted(set(column))) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    # A list of the first few parameters each, so that a space is never multiplied out before it is cut down.
    prefixes = (tuple(names[:count]) for count in range(2, len(names) + 1))
    listed = tuple(
        AllowedRows(prefix, tuple(dict.fromkeys(row[: len(prefix)] for row in rows))) for prefix in prefixes
    )
    return replace(description, space=Space(values, (*description.space.constraints, *listed)))


def _whole(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int64) if np.all(values == np.floor(values)) else values
