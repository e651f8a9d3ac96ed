"""GPU files from measurements and the driver's attributes, completed from the catalogue."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dse.errors import DseError
from dse.hardware import gpus
from dse.hardware.gpus import write as gpu_text
from dse.hardware.gpus.facts import Fact
from dse.hardware.gpus.fields import Header
from dse.hardware.gpus.rules import INLINE_ECC
from dse.measure.bench import derive
from dse.measure.bench.derive import Value
from dse.measure.bench.records import BenchRecording

LIMITS = {  # field of dse.types.Limits → attribute of the driver, and its unit
    "warp_size": ("WARP_SIZE", "threads"),
    "threads_per_block": ("MAX_THREADS_PER_BLOCK", "threads"),
    "threads_per_sm": ("MAX_THREADS_PER_MULTIPROCESSOR", "threads"),
    "blocks_per_sm": ("MAX_BLOCKS_PER_MULTIPROCESSOR", "blocks"),
    "one_warp_blocks_per_sm": ("MAX_BLOCKS_PER_MULTIPROCESSOR", "blocks"),
    "registers_per_sm": ("MAX_REGISTERS_PER_MULTIPROCESSOR", "registers"),
    "registers_per_block": ("MAX_REGISTERS_PER_BLOCK", "registers"),
    "shared_bytes_per_sm": ("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", "B"),
    "shared_bytes_per_block": ("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "B"),
    "shared_bytes_reserved": ("RESERVED_SHARED_MEMORY_PER_BLOCK", "B"),
}


def like(name: str, capability: str) -> gpus.GpuFile:
    """Find the catalogue's GPU of this name; else one of this compute capability, else of the next lower.

    **Raises:** DseError if the catalogue has nothing for it.
    """
    rows = {slug: row for slug, row in gpus.known().items() if not slug.endswith(MEASURED)}
    for slug, row in rows.items():
        if row.name == name:
            return gpus.load(slug)

    def number(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split("."))) if "." in text else (0, 0)

    older = {slug: number(row.target) for slug, row in rows.items() if not row.like}
    older = {slug: version for slug, version in older.items() if (0, 0) < version <= number(capability)}
    if not older:
        raise DseError(f"{name}: compute capability: found {capability}, expected one of a GPU of `dse gpus`")
    return gpus.load(max(older, key=lambda slug: older[slug]))


MEASURED = "_measured"  # suffix of GPU files from this module
GDDR_BITS = 512  # of the widest memory bus with GDDR, whose ECC takes part of the memory
SWEPT = "_occupancy"  # suffix of tables with swept occupancy


def slug_of(name: str) -> str:
    """Name the measurements of a GPU: by the catalogue's slug, else by one from the GPU's own name."""
    slugs = [slug for slug, row in gpus.known().items() if name in (row.name, row.device)]
    return slugs[0] if slugs else re.sub(r"\W+", "_", name.removeprefix("NVIDIA ")).strip("_").lower()


def write(recording: BenchRecording, path: Path) -> dict[str, Value]:
    """Write a GPU file, and return its measured values.

    **Raises:** DseError if the recording is not complete, or the file cannot be written.
    """
    measured, device = derive.values(recording), recording.device
    model = like(device["name"], device["capability"])
    header = Header(
        name=f"{device['name']}, measured",
        vendor=model.header.vendor,
        architecture=model.header.architecture,
        compute_capability=device["capability"],
        aliases=[],
        device=device["name"],
        gfx_name=None,
    )
    setup = f"{device['date']}, driver for CUDA {device['driver']}, {device['compiler']}"
    loaded = f"{measured['clock'].value:.0f} MHz under load"
    comments = [f"Measured by dse measure gpu on {setup}, SM clock {loaded}."]
    comments += derive.warnings(recording, measured)
    source = f"dse measure gpu, {setup}, {loaded}"
    gpu_text.write(path, header, list(_records(device, model, measured, source)), comments)
    return measured


def _records(
    device: Mapping[str, Any], model: gpus.GpuFile, measured: dict[str, Value], source: str
) -> Iterator[Fact]:
    """Yield every field of the catalogue's GPU: measured, else from the driver, else the catalogue's."""
    attributes = dict(_attributes(device["attributes"]))
    for record in model.fields:
        if record.field in measured:
            value = measured[record.field]
            yield Fact(
                record.field, value.value, value.unit, source, "measured here", value.rule, value.spread
            )
        elif record.field in attributes:
            number, unit, rule = attributes[record.field]
            driver = f"CUDA driver {device['driver']} on this GPU"
            yield Fact(record.field, number, unit, driver, "derived" if rule else "stated", rule)
        elif model.header.name != device["name"] and record.provenance != "stated":
            yield _as_on(model.name, record)
        else:
            yield record


def _as_on(name: str, record: Fact) -> Fact:
    """Return a quantity of another GPU with a note of its origin."""
    if record.follows is None:
        return replace(record, rule=f"as on {name}: {record.rule}" if record.rule else f"as on {name}")
    note = record.follows.note
    note = f"as on {name}: {note}" if note else f"as on {name}"
    return replace(record, follows=record.follows._replace(note=note))


def _attributes(attributes: dict[str, int]) -> Iterator[tuple[str, tuple[int | float, str, str]]]:
    """Yield the driver's values: field, then value, unit and rule. It returns 0 for unknown ones."""
    for field, (name, unit) in LIMITS.items():
        if attributes[name] or field == "shared_bytes_reserved":
            yield f"limits.{field}", (attributes[name], unit, "")
    threads, warp = attributes["MAX_THREADS_PER_MULTIPROCESSOR"], attributes["WARP_SIZE"]
    if threads and warp:
        yield "limits.warps_per_sm", (threads // warp, "warps", f"{threads} threads / {warp}")
    if attributes["MULTIPROCESSOR_COUNT"]:
        yield "sm_count", (attributes["MULTIPROCESSOR_COUNT"], "1", "")
    if attributes["L2_CACHE_SIZE"]:
        yield "l2_bytes", (attributes["L2_CACHE_SIZE"], "B", "")
    khz, bits = attributes["MEMORY_CLOCK_RATE"], attributes["GLOBAL_MEMORY_BUS_WIDTH"]
    if khz and bits:
        bandwidth, rule = 2 * khz * 1e3 * bits / 8 / 1e9, f"{khz / 1e3:.0f} MHz x 2 x {bits} bit / 8"
        if attributes["ECC_ENABLED"] and bits <= GDDR_BITS:
            bandwidth, rule = bandwidth * (1 - INLINE_ECC), f"{rule}, of which ECC takes 1/16"
        yield "dram_bandwidth", (bandwidth, "GB/s", rule)
