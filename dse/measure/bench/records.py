"""Raw results of the microbenchmarks, as stored; everything else is computed from them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from dse.core.files import parse_json, replacing
from dse.data import safe_readers
from dse.errors import DseError
from dse.measure.statistics import Repeats

Parameter = int | float | str
_METADATA = b"dse.device"
_COLUMNS = ("benchmark", "parameters", "unit", "values", "settled")


@dataclass(frozen=True)
class BenchmarkRecord:
    """A quantity measured several times, with its parameters."""

    benchmark: str
    parameters: Mapping[str, Parameter]
    unit: str  # of the values
    repeats: Repeats

    @property
    def value(self) -> float:
        """The middle of the repeated measurements."""
        return self.repeats.middle


@dataclass(frozen=True)
class BenchRecording:
    """Everything that was measured on one GPU."""

    device: Mapping[str, Any]  # name, capability, driver, compiler, date, attributes
    records: list[BenchmarkRecord] = field(default_factory=list)

    def of(self, benchmark: str, **parameters: Parameter) -> list[BenchmarkRecord]:
        """List the records of a benchmark that have these parameters, in order."""
        return [
            record
            for record in self.records
            if record.benchmark == benchmark
            and all(record.parameters.get(key) == value for key, value in parameters.items())
        ]


def save(recording: BenchRecording, path: Path) -> None:
    """Write a recording as Parquet: a row for each record, its parameters as JSON. DseError if that fails."""
    rows = recording.records
    table = pa.table(
        {
            "benchmark": [record.benchmark for record in rows],
            "parameters": [json.dumps(dict(record.parameters)) for record in rows],
            "unit": [record.unit for record in rows],
            "values": pa.array([list(record.repeats.values) for record in rows], pa.list_(pa.float64())),
            "settled": [record.repeats.settled for record in rows],
        }
    ).replace_schema_metadata({_METADATA: json.dumps(recording.device)})
    with replacing(path) as temporary:
        pyarrow.parquet.write_table(table, temporary, compression="zstd")


def load(path: Path) -> BenchRecording:
    """Read a file of `save`. DseError for any other file."""
    if not path.is_file():
        raise DseError(f"{path}: found no file, expected what `dse measure gpu` recorded")
    table = safe_readers.parquet(path)
    with safe_readers.refused(path):
        metadata = (table.schema.metadata or {}).get(_METADATA)
        rows = table.to_pylist()
        if metadata is None or not set(_COLUMNS) <= set(table.column_names):
            raise DseError(f"{path}: found no recording, expected what `dse measure gpu` recorded")
        device = parse_json(metadata.decode(), str(path))
        records = [
            BenchmarkRecord(
                str(row["benchmark"]),
                dict(parse_json(row["parameters"], f"{path}: parameters")),
                str(row["unit"]),
                Repeats(tuple(map(float, row["values"])), bool(row["settled"])),
            )
            for row in rows
        ]
    return BenchRecording(device, records)
