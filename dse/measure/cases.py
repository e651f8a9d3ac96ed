"""Cases of problem sizes: a CSV file with a column for each size and a row for each case."""

import csv
from pathlib import Path

from dse.errors import DseError

Number = int | float


def read(path: Path) -> list[dict[str, Number]]:
    """Read the cases of a file, in its order. **Raises:** DseError that names file, row and column."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, restval=""))
    except (OSError, UnicodeDecodeError) as error:
        raise DseError(f"{path}: cannot read: {getattr(error, 'strerror', None) or error}") from None
    if not rows:
        raise DseError(f"{path}: rows: found none, expected names of problem sizes, then a row for each case")
    return [
        {name: _number(text, f"{path}: {name}, row {place}") for name, text in row.items()}
        for place, row in enumerate(rows, 1)
    ]


def _number(text: str | list[str] | None, where: str) -> Number:
    for kind in (int, float):
        try:
            return kind(text)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    raise DseError(f"{where}: found {text!r}, expected a number")
