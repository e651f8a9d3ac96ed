"""Cases of problem sizes: a CSV file with a column for each size and a row for each case."""

import csv
import io
from pathlib import Path

from dse.core.files import read_text
from dse.errors import DseError

Number = int | float
MOST = 10_000  # cases
MOST_BYTES = 1 << 24


def read(path: Path) -> list[dict[str, Number]]:
    """Read the cases of a file, in its order. **Raises:** DseError that names file, row and column."""
    try:
        rows = list(csv.DictReader(io.StringIO(read_text(path, MOST_BYTES), newline=""), restval=""))
    except csv.Error as error:
        raise DseError(f"{path}: cannot read: {error}") from None
    if len(rows) > MOST:
        raise DseError(f"{path}: rows: found {len(rows):,}, expected at most {MOST:,}")
    if not rows:
        raise DseError(f"{path}: rows: found none, expected names of problem sizes, then a row for each case")
    return [
        {name: _number(text, f"{path}: {name}, row {number}") for name, text in row.items()}
        for number, row in enumerate(rows, 1)
    ]


def _number(text: str | list[str] | None, where: str) -> Number:
    for kind in (int, float):
        try:
            number = kind(text)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if abs(number) < 2**63:  # excludes NaN
            return number
    raise DseError(f"{where}: found {text if text is None else text[:40]!r}, expected a number")
