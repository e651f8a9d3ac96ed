"""Read Kernel Tuner's cache file: the configurations it tried, with times in milliseconds.

Follows the cache schema, version 1.1.0 (kernel_tuner/schema/cache/1.1.0/schema.json); 1.0.0 and files without
a `schema_version` agree in all fields read here. `time` of a failed configuration is the name of an error, or
1e20 in older files. `times` are the repetitions.

Kernel Tuner appends entries while it tunes and closes the file at the end: after an interruption the closing
braces are missing, and the last entry may be truncated (`process_cache` and `close_cache` in its util.py).
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dse.core.files import parse_json
from dse.core.validate import checked
from dse.data.table import Table
from dse.errors import DseError

# Kernel Tuner's own words in T4 files (get_configuration_validity in its file_utils.py)
STATUS = {
    "InvalidConfig": "constraints",
    "CompilationFailedConfig": "compile",
    "RuntimeFailedConfig": "runtime",
}
_FAILED_MS = 1e20
_NO_COUNTERS = ("time", "times", "timestamp")


class _KernelTunerFile(BaseModel):
    tune_params_keys: list[str]
    cache: dict[str, dict[str, Any]]


def closed(text: str) -> Any:
    """Parse an unclosed cache, without a truncated last entry; None for any other file."""
    if '"cache"' not in text:
        return None
    whole_lines = text.rpartition("\n")[0]  # an entry is a line
    for part in (text, whole_lines):
        for end in ("}", "}}"):
            try:
                return parse_json(part.rstrip().removesuffix(",") + end, "")
            except DseError:
                continue
    return None


def read(path: Path, content: Any) -> Table:
    """Read the entries of a cache, one a row.

    **Edges:** parameters missing in an entry come from its key, their values joined by commas. Without
    `time`, the mean of `times` is used.
    **Raises:** DseError, one line.
    """
    file = checked(_KernelTunerFile, content, f"{path}")
    rows = []
    for row, (key, entry) in enumerate(file.cache.items(), start=1):
        where = f"{path}: cache, row {row}"
        values = key.split(",")
        parameters = {name: entry[name] for name in file.tune_params_keys if name in entry}
        if len(parameters) < len(file.tune_params_keys):
            if len(values) != len(file.tune_params_keys):
                expected = ", ".join(file.tune_params_keys)
                raise DseError(f"{where}: found key {key!r}, expected values of {expected}")
            parameters = dict(zip(file.tune_params_keys, values, strict=True))
        numbers = {
            name: cell
            for name, cell in entry.items()
            if name not in _NO_COUNTERS and isinstance(cell, int | float)
        }
        rows.append(numbers | _timed(entry, where) | parameters)
    return Table.of_rows(path, rows)


def _timed(entry: dict[str, Any], where: str) -> dict[str, Any]:
    times = entry.get("times") or []
    if not isinstance(times, list) or not all(isinstance(repetition, int | float) for repetition in times):
        raise DseError(f"{where}, times: found {times!r}, expected a list of milliseconds")
    time = entry.get("time", sum(times) / len(times) if times else None)
    match time:
        case str():
            return {"status": STATUS.get(time, time)}
        case int() | float() if time >= _FAILED_MS or time != time:
            return {"status": "failed"}
        case int() | float():
            return {"status": "ok", "time_ms": float(time), "min_ms": min(times, default=None)}
    raise DseError(f"{where}, time: found {time!r}, expected milliseconds or the name of an error")
