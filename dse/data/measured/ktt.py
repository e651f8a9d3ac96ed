"""Read KTT's own JSON results: configurations, times, and counters where it profiled.

Follows KTT 2.1 to 2.3 (Source/Output/JsonConverters.cpp): `Metadata.TimeUnit` is the unit of all times in the
file, `TotalDuration` the time of a configuration with all kernels it launches.
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from dse.core.validate import checked
from dse.data.table import Table, suffix_of
from dse.errors import DseError

# KTT's own words in T4 files (JsonT4Converters.h)
STATUS = {
    "Ok": "ok",
    "ComputationFailed": "runtime",
    "DeviceLimitsExceeded": "runtime",
    "CompilationFailed": "compile",
    "ValidationFailed": "correctness",
}


class _KttPair(BaseModel):
    Name: str
    Value: Any


class _Profiling(BaseModel):
    Counters: list[_KttPair] = []


class _KttCompilation(BaseModel):
    RegistersCount: int
    LocalMemorySize: int
    PrivateMemorySize: int


class _Computation(BaseModel):
    CompilationData: _KttCompilation | None = None
    ProfilingData: _Profiling = _Profiling()


class _KttResult(BaseModel):
    KernelName: str
    Status: str
    TotalDuration: float
    Configuration: list[_KttPair]
    ComputationResults: list[_Computation] = []


class _KttMetadata(BaseModel):
    TimeUnit: str


class _KttFile(BaseModel):
    Metadata: _KttMetadata
    Results: list[_KttResult]


def read(path: Path, content: Any) -> Table:
    """Read the results, one a row: counters under KTT's names, registers and bytes under a kernel.toml's.

    **Edges:** a configuration that launches several kernels has a time but no counters, not all of which can
    be summed.
    **Raises:** DseError, one line; also if the file holds results of several kernels.
    """
    file = checked(_KttFile, content, f"{path}")
    kernels = list(dict.fromkeys(result.KernelName for result in file.Results))
    if len(kernels) > 1:
        raise DseError(f"{path}: Results: found kernels {' and '.join(kernels[:2])}, expected one kernel")
    unit = suffix_of(file.Metadata.TimeUnit, f"{path}: Metadata.TimeUnit")
    return Table.of_rows(path, (_row(result, unit) for result in file.Results))


def _row(result: _KttResult, unit: str) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if len(result.ComputationResults) == 1:
        [computation] = result.ComputationResults
        row |= {counter.Name: counter.Value for counter in computation.ProfilingData.Counters}
        if compilation := computation.CompilationData:
            row |= {
                "registers": compilation.RegistersCount,
                "shared_bytes": compilation.LocalMemorySize,
                "local_bytes": compilation.PrivateMemorySize,
            }
    row["status"] = STATUS.get(result.Status, result.Status)
    if row["status"] == "ok":
        row[f"time_{unit}"] = result.TotalDuration
    return row | {pair.Name: pair.Value for pair in result.Configuration}
