"""Read Nsight Compute's CSV output and reports: each launch with its time and counters.

Both forms of `ncu --csv` are read (NVIDIA, Nsight Compute CLI user manual, "Output Pages" and "Metrics and
Units"): one line a metric (`Metric Name`, `Metric Unit`, `Metric Value`), and with `--page raw` one line a
launch, with a line of units below the header. Output of the profiled program above is skipped. A launch's
parameters are in added columns, or are inferred from its block and grid.

Numbers depend on the locale: 1,205.34, 1.205,34, or a space between thousands. Scaled units become s, byte
and so on. The time is `gpu__time_duration.sum`. Reports need NVIDIA's `ncu_report`.
"""

import csv
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dse.core.optional import needs
from dse.data.safe_readers import refused
from dse.data.table import Table, suffix_of
from dse.errors import DseError
from dse.kernels.counts import Counts
from dse.kernels.description import Description

TIMES = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration")  # the last: --page details
BLOCK, GRID, KERNEL = "Block Size", "Grid Size", "Kernel Name"
_LONG = ("Metric Name", "Metric Unit", "Metric Value")
_OF_A_METRIC = (*_LONG, "Section Name")
_OF_A_RULE = ("Rule", "Estimated Speedup")  # prefixes of columns

_SCALES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALED = re.compile(r"([numKMGT])(second|s|byte|B|hz|Hz)")

_SPACES = re.compile(r"[\s\u00a0\u202f']")  # between thousands
_NUMBER = re.compile(r"-?\d[\d.,]*|-?[.,]\d+")
_GROUP = re.compile(r"-?[1-9]\d{0,2}[.,]\d{3}")  # 1,205 or 1.205: ambiguous on its own


def header(text: str) -> int | None:
    """Return the offset of the header line in Nsight Compute's output; None for any other text."""
    start = 0
    for line in text.splitlines(keepends=True):
        if _LONG[0] in line or KERNEL in line:
            cells = next(csv.reader([line.strip()], delimiter=_delimiter(line)), [])
            if all(name in cells for name in _LONG) or (KERNEL in cells and any(t in cells for t in TIMES)):
                return start
        start += len(line)
    return None


def read(path: Path, text: str) -> Table:
    """Read the launches, one a row: `time_s`, each metric, and all other columns of the file.

    **Units:** seconds, bytes, hertz, and their quotients; percentages stay.
    **Raises:** DseError, one line.
    """
    text = text[header(text) or 0 :]
    lines = csv.reader(text.splitlines(), delimiter=_delimiter(text.partition("\n")[0]))
    names = next(lines)
    cells = [line for line in lines if len(line) == len(names)]  # without interleaved program output
    if all(name in names for name in _LONG):
        launches = list(_long(path, (dict(zip(names, line, strict=True)) for line in cells)))
    else:
        launches = list(_wide(path, names, cells))
    decimal = _decimal(path, (metric for _, measured in launches for metric in measured.values()))
    units: dict[str, str] = {}
    rows = [
        own | _numbers(measured, decimal, units, f"{path}: row {row}")
        for row, (own, measured) in enumerate(launches, start=1)
    ]
    return Table.of_rows(path, rows, decimal)


def read_report(path: Path) -> Table:
    """Read the launches of a report (.ncu-rep) with Nsight Compute's own module, in the form of `read`.

    **Raises:** DseError, one line; also if that module is not installed.
    """
    printed = f"ncu --import {path} --csv --page raw > times.csv"
    with needs("ncu_report", f"that of Nsight Compute's extras/python, or: {printed}"):
        from ncu_report import load_report  # type: ignore[import-not-found]
    rows, units = [], dict[str, str]()
    with refused(path):
        for action in (action for launches in load_report(str(path)) for action in launches):
            metrics = {name: (action[name].value(), action[name].unit()) for name in action.metric_names()}
            own = {KERNEL: action.name()}
            for cell, kind in ((BLOCK, "block"), (GRID, "grid")):
                sizes = (metrics[f"launch__{kind}_dim_{axis}"][0] for axis in "xyz")
                own[cell] = f"({', '.join(f'{size:.0f}' for size in sizes)})"
            texts = {
                name: (np.format_float_positional(value), unit)
                for name, (value, unit) in metrics.items()
                if isinstance(value, int | float)
            }
            rows.append(own | _numbers(texts, ".", units, f"{path}: row {len(rows) + 1}"))
    return Table.of_rows(path, rows)


Launch = tuple[dict[str, Any], dict[str, tuple[str, str]]]  # its cells, and metric → value and unit


def _long(path: Path, lines: Iterable[dict[str, str]]) -> Iterator[Launch]:
    """Join the lines of a launch, which differ in the metric only."""
    launches: dict[tuple[str, ...], Launch] = {}
    for line in lines:
        name, unit, value = (line.pop(key) for key in _LONG)
        own = {
            key: cell
            for key, cell in line.items()
            if key not in _OF_A_METRIC and not key.startswith(_OF_A_RULE)
        }
        _, metrics = launches.setdefault(tuple(own.values()), (own, {}))
        if name and metrics.setdefault(name, (value, unit)) != (value, unit) and name in TIMES:
            raise DseError(
                f"{path}: {name}: found {metrics[name][0]} and {value} of one launch, expected one; columns"
                " that tell launches apart may be missing"
            )
    yield from launches.values()


def _wide(path: Path, names: list[str], lines: list[list[str]]) -> Iterator[Launch]:
    """Read one line a launch, below the line of units, which has no kernel."""
    if not lines or lines[0][names.index(KERNEL)]:
        raise DseError(f"{path}: units: found no line of units below the header, expected one")
    units = dict(zip(names, lines[0], strict=True))
    for line in lines[1:]:
        cells = dict(zip(names, line, strict=True))
        is_metric = {name: bool(units[name]) or "__" in name or name in TIMES for name in names}
        own = {name: cell for name, cell in cells.items() if not is_metric[name]}
        yield own, {name: (cell, units[name]) for name, cell in cells.items() if is_metric[name]}


def _numbers(
    metrics: dict[str, tuple[str, str]], decimal: str, units: dict[str, str], where: str
) -> dict[str, float]:
    """Convert the metrics of a launch to unscaled units; `units` records them, for a consistency check."""
    numbers: dict[str, float] = {}
    for name, (text, unit) in metrics.items():
        text = _SPACES.sub("", text)
        if not _NUMBER.fullmatch(text):
            continue  # n/a, or a name
        value = float(text.replace("," if decimal == "." else ".", "").replace(",", "."))
        if name in TIMES:
            suffix_of(unit, f"{where}, {name}")
        scale, base = _unscaled(unit)
        if units.setdefault(name, base) != base:
            raise DseError(f"{where}, {name}: found unit {unit!r}, expected {units[name]!r} as above")
        numbers[name] = value * scale
    time = next((numbers[name] for name in TIMES if name in numbers), None)
    return numbers if time is None else numbers | {"time_s": time}


def _unscaled(unit: str) -> tuple[float, str]:
    """Split `Mbyte/usecond` into a factor and `byte/s`."""
    scale, parts = 1.0, []
    for position, part in enumerate(unit.split("/")):
        if match := _SCALED.fullmatch(part):
            scale *= _SCALES[match[1]] if position == 0 else 1 / _SCALES[match[1]]
            part = match[2]
        parts.append({"second": "s", "B": "byte", "hz": "Hz"}.get(part, part))
    return scale, "/".join(parts)


def _decimal(path: Path, metrics: Iterable[tuple[str, str]]) -> str:
    """Infer the decimal sign of the file from its unambiguous numbers.

    Without any, three digits after a sign are thousands in units without fractions (nanoseconds, and unscaled
    units with a comma), and a point is a decimal point.
    """
    sure: dict[str, str] = {}
    likely: dict[str, str] = {}
    unsure = ""
    for cell, unit in metrics:
        text = _SPACES.sub("", cell)
        signs = [sign for sign in text if sign in ".,"]
        if not signs or not _NUMBER.fullmatch(text):
            continue
        last, other = signs[-1], ".,".replace(signs[-1], "")
        scale, base = _unscaled(unit)
        if not _GROUP.fullmatch(text):
            thousands = signs.count(last) > 1
            sure.setdefault(other if thousands else last, cell)
        elif scale == _SCALES["n"] or (last == "," and scale == 1.0 and base != "%"):
            likely.setdefault(other, cell)
        elif last == ",":
            unsure = cell
    signs_seen = sure or likely
    if len(signs_seen) == 2:
        both = f"{signs_seen['.']} and {signs_seen[',']}"
        raise DseError(f"{path}: numbers: found {both}, expected one decimal sign")
    if not signs_seen and unsure:
        raise DseError(f"{path}: numbers: found {unsure}, a thousand or a fraction, expected a clear one")
    return next(iter(signs_seen), ".")


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def with_parameters(table: Table, kernel: Counts) -> Table:
    """Add the parameters of each launch to a table, inferred from its block and grid.

    Launches of other kernels are dropped. Block and grid are compared along x, y, z if the kernel's source
    states its launch, else by threads of a block and number of blocks.

    **Raises:** DseError if that is ambiguous, with the columns needed.
    """
    names = ", ".join(kernel.space.names)
    needed = f"expected columns {names} beside the metrics"
    for name in (BLOCK, GRID):
        if name not in table.names:
            table.fail("columns", f"found neither {names} nor {name!r}, {needed}")
    description = getattr(kernel, "description", kernel)
    if not isinstance(description, Description):
        table.fail("columns", f"found no {names}, {needed}")
    table = _of_kernel(table, description)
    problem = description.sizes()
    parameters = description.space.configurations(problem)
    sizes = _launches(description, {"warp_size": 32} | problem | parameters)
    if sizes is None:
        problem = f"found no {names}, nor a launch of {description.name} that they follow from"
        table.fail("columns", f"{problem}, {needed}")
    shape = next(iter(parameters.values())).shape
    of_launch: dict[tuple[int, ...], list[int]] = {}
    for i, launch in enumerate(zip(*(np.broadcast_to(x, shape).tolist() for x in sizes), strict=True)):
        of_launch.setdefault(launch, []).append(i)

    indices = []
    for row, cells in enumerate(zip(table.texts(BLOCK), table.texts(GRID), strict=True), start=1):
        block, grid = ([int(n) for n in re.findall(r"\d+", cell)] for cell in cells)
        launch = (*block, *grid) if len(sizes) == 6 else (math.prod(block), math.prod(grid))
        matches = of_launch.get(launch, [])
        if len(matches) != 1:
            count = f"{len(matches)} configurations" if matches else "no configuration"
            problem = f"found {cells[1]} with blocks of {cells[0]}, which {count} of {description.name} have"
            table.fail(f"{GRID}, row {row}", f"{problem}, {needed}")
        indices += matches
    columns = table.table
    for name, values in parameters.items():
        columns = columns.append_column(name, pa.array(values[indices]))
    return replace(table, table=columns)


def _launches(description: Description, known: dict[str, Any]) -> list[Any] | None:
    """Block and grid along x, y, z; or threads and blocks; None if they depend on the GPU."""
    for name, expression in description.let:
        if expression.names <= known.keys():
            known[name] = expression(known, np)
    build, launch = description.build, dict(description.launch)
    sizes = [launch[name] for name in ("threads", "blocks") if name in launch]
    if build is not None:
        sizes = [size for axes in (build.block, build.grid) for size in (*axes, *[None] * (3 - len(axes)))]
    if not sizes or not all(size is None or size.names <= known.keys() for size in sizes):
        return None
    return [1 if size is None else np.ceil(size(known, np)).astype(int) for size in sizes]


def _of_kernel(table: Table, description: Description) -> Table:
    """Keep the launches of one kernel: the only one in the file, or the one named by the description."""
    if KERNEL not in table.names:
        return table
    own = {description.name, description.build.kernel if description.build else ""}
    bare = np.array([re.sub(r"[<(].*", "", name).split(" ")[-1] for name in table.texts(KERNEL)])
    kernels = list(dict.fromkeys(bare.tolist()))
    if len(kernels) == 1:
        return table
    named = [kernel for kernel in kernels if kernel in own]
    if len(named) != 1:
        actual = ", ".join(kernels[:5])
        table.fail(KERNEL, f"found {actual}, expected one kernel, or one of them named {description.name}")
    return replace(table, table=table.table.filter(bare == named[0]))
