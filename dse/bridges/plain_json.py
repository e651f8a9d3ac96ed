"""A table as JSON: a list of objects with `size`, `configuration` and `time_s`."""

import json

from dse.bridges.tables import BestConfigurations


def text(table: BestConfigurations) -> str:
    """The content of the file."""
    rows = [
        {
            "size": {name: row[name] for name in table.sizes},
            "configuration": {name: row[name] for name in table.parameters},
            "time_s": row["time_s"],
        }
        for row in table.rows
    ]
    return json.dumps(rows, indent=1) + "\n"
