"""Read JSON lines: rows, or the journal of `dse tune`, whose rows have `parameters` and `seconds`."""

from pathlib import Path
from typing import Any

from dse.core.files import parse_json_lines

OWN = ("parameters", "seconds", "took_s")


def is_journal(text: str) -> bool:
    """Whether the first line is a measurement of `dse tune`."""
    first = text.partition("\n")[0]
    return first.startswith("{") and '"parameters": {' in first and '"seconds": ' in first


def rows(path: Path, text: str) -> list[Any]:
    """Return the rows; a measurement that failed has no time. **Raises:** DseError, one line."""
    lines = parse_json_lines(text, str(path))
    return [_measurement(line, number) for number, line in enumerate(lines, 1)]


def _measurement(line: Any, number: int) -> Any:
    if not isinstance(line, dict) or not isinstance(line.get("parameters"), dict):
        return line
    status = {"status": "failed" if (seconds := line.get("seconds")) is None else "ok", "measured_s": seconds}
    about = {name: value for name, value in line.items() if name not in OWN}
    return line["parameters"] | status | about | {"number": number}
