"""Read results in T4, the JSON format shared by auto-tuners; Kernel Tuner and KTT write it.

Follows the results schema 1.0.0 (kernel_tuner/schema/T4/1.0.0/results-schema.json) and the two writers:
Kernel Tuner's times are milliseconds, stated or not (`store_output_file` in its file_utils.py); KTT states
one unit a file in `metadata.timeunit` and writes parameters as text (JsonT4Converters.cpp).
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dse.core.validate import checked
from dse.data.table import SECONDS, Table, suffix_of
from dse.errors import DseError

TIMES = ("time", "TotalDuration")  # measurements that are the time of a configuration


class _Measurement(BaseModel):
    name: str
    value: Any = None
    unit: str | None = None


class _Times(BaseModel):
    runtimes: list[float] | None = None


class _T4Result(BaseModel):
    configuration: dict[str, Any]
    times: _Times = _Times()
    invalidity: str
    correctness: float = 1
    measurements: list[_Measurement] = []


class _T4Metadata(BaseModel):
    timeunit: str | None = None


class _T4File(BaseModel):
    metadata: _T4Metadata = _T4Metadata()
    results: list[_T4Result]


def read(path: Path, content: Any) -> Table:
    """Read the results, one a row; numeric measurements become columns too.

    **Units:** milliseconds unless a time measurement or the file states another unit.
    **Edges:** without a time measurement, the mean of the run times is used.
    **Raises:** DseError, one line.
    """
    file = checked(_T4File, content, f"{path}")
    unit = file.metadata.timeunit or "ms"
    rows = []
    for row, result in enumerate(file.results, start=1):
        counters = {
            measurement.name: measurement.value
            for measurement in result.measurements
            if measurement.name not in TIMES and isinstance(measurement.value, int | float)
        }
        status = {"status": _status(result)}
        if status["status"] == "ok":
            status |= _timed(result, unit, f"{path}: results, row {row}")
        rows.append(counters | status | result.configuration)
    return Table.of_rows(path, rows)


def _status(result: _T4Result) -> str:
    if result.invalidity != "correct":
        return result.invalidity
    return "ok" if result.correctness > 0 else "correctness"


def _timed(result: _T4Result, unit: str, where: str) -> dict[str, Any]:
    runtimes = result.times.runtimes or []
    time = sum(runtimes) / len(runtimes) if runtimes else None
    stated = next(
        (measurement for name in TIMES for measurement in result.measurements if measurement.name == name),
        None,
    )
    if stated is not None:
        time, unit = stated.value, stated.unit or unit
    if not isinstance(time, int | float):
        raise DseError(f"{where}, {stated.name if stated else 'times'}: found {time!r}, expected a time")
    to_ms = SECONDS[suffix_of(unit, where)] / SECONDS["ms"]
    return {"time_ms": time * to_ms, "min_ms": min(runtimes) * to_ms if runtimes else None}
