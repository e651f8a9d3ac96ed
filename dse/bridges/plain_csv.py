"""A table as CSV: a row for each configuration, with its sizes, its parameters and `time_s`."""

import csv
import io

from dse.bridges.tables import BestConfigurations


def text(table: BestConfigurations) -> str:
    """The content of the file."""
    names = (*table.sizes, *table.parameters, "time_s")
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.rows)
    return out.getvalue()
