"""Cases of problem sizes: a CSV file with a column for each size and a row for each case."""

from pathlib import Path

import numpy as np

from dse.data.safe_readers import csv_table, text
from dse.data.table import Table, as_integers
from dse.data.tables import rows_of

Number = int | float
MOST = 10_000  # cases
MOST_BYTES = 1 << 24


def read(path: Path) -> list[dict[str, Number]]:
    """Read the cases of a file, in its order. **Raises:** DseError that names file, row and column."""
    table = Table(path, *csv_table(path, text(path, MOST_BYTES)))
    if table.rows > MOST:
        table.fail("rows", f"found {table.rows:,}, expected at most {MOST:,}")
    columns = {name: as_integers(table.complete(name)) for name in table.names}
    for name, values in columns.items():
        if (np.abs(values.astype(float)) >= 2**63).any():
            table.fail(name, "found a number of over 64 bits, expected smaller ones")
    return rows_of(columns)
