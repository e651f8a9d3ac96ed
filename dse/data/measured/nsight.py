"""Read what Nsight Compute printed as CSV: each launch with its time and counters.

Both forms that `ncu --csv` has (NVIDIA, Nsight Compute CLI user manual, "Output Pages" and "Metrics and
Units"): one line a metric (`Metric Name`, `Metric Unit`, `Metric Value`), and with `--page raw` one line a
launch, with a line of units below the header. What the profiled program printed before is passed over. The
parameters of a launch are columns that were added, else its block and grid have to tell.

Numbers are written as the locale has them: 1,205.34, 1.205,34, or a space between thousands. Units are
scaled to fit each number: here all become s, byte and so on. The time is that of `gpu__time_duration.sum`.
Reports themselves are read where NVIDIA's `ncu_report` is installed.
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
_OF_A_RULE = ("Rule", "Estimated Speedup")  # columns that begin so

_SCALES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALED = re.compile(r"([numKMGT])(second|s|byte|B|hz|Hz)")

_SPACES = re.compile(r"[\s\u00a0\u202f']")  # between thousands
_NUMBER = re.compile(r"-?\d[\d.,]*|-?[.,]\d+")
_GROUP = re.compile(r"-?[1-9]\d{0,2}[.,]\d{3}")  # 1,205 or 1.205: read alone it may be either


def is_one(text: str) -> bool:
    """Whether this is what Nsight Compute printed."""
    return _header(text) is not None


def _header(text: str) -> int | None:
    """Find where the header line begins; None in the output of another program."""
    start = 0
    for line in text.splitlines(keepends=True):
        if _LONG[0] in line or KERNEL in line:
            cells = next(csv.reader([line.strip()], delimiter=_delimiter(line)), [])
            if all(name in cells for name in _LONG) or (KERNEL in cells and any(t in cells for t in TIMES)):
                return start
        start += len(line)
    return None


def read(path: Path, text: str) -> Table:
    """Read the launches, one a row: `time_s`, each metric, and every other column of the file.

    **Units:** seconds, bytes, hertz, and what divides them; percentages stay.
    **Raises:** DseError, one line.
    """
    text = text[_header(text) or 0 :]
    lines = csv.reader(text.splitlines(), delimiter=_delimiter(text.partition("\n")[0]))
    names = next(lines)
    cells = [line for line in lines if len(line) == len(names)]  # not what the program printed in between
    if all(name in names for name in _LONG):
        launches = list(_long(path, (dict(zip(names, line, strict=True)) for line in cells)))
    else:
        launches = list(_wide(path, names, cells))
    decimal = _decimal(path, (metric for _, measured in launches for metric in measured.values()))
    units: dict[str, str] = {}
    rows = []
    for row, (own, measured) in enumerate(launches, start=1):
        rows.append(own | _numbers(measured, decimal, units, f"{path}: row {row}"))
    return Table.of_rows(path, rows, decimal)


def read_report(path: Path) -> Table:
    """Read the launches of a report (.ncu-rep) by Nsight Compute's own module, in the form of `read`.

    **Raises:** DseError, one line: also where that module is not installed.
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


Launch = tuple[dict[str, Any], dict[str, tuple[str, str]]]  # its own cells, and metric → value and unit


def _long(path: Path, lines: Iterable[dict[str, str]]) -> Iterator[Launch]:
    """Join the lines of one launch, which have the same cells but for the metric."""
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
    """Read one line a launch, below a line that has units and no kernel."""
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
    """The metrics of one launch in unscaled units; `units` keeps each one's, which must not change."""
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
    """Find the decimal sign of the file by the numbers that can be read in one way only.

    Failing those, three digits behind a sign are thousands where a unit has no fractions: nanoseconds, and
    with a comma all that are not scaled; and a point is a decimal point.
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
        raise DseError(f"{path}: numbers: found {unsure}, a thousand or a fraction, expected one that tells")
    return next(iter(signs_seen), ".")


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def with_parameters(table: Table, kernel: Counts) -> Table:
    """Add the parameters of each launch to a table, found by its block and grid.

    Only launches of this kernel are kept, if the file has others. They are compared along x, y, z where the
    kernel's source says how it is launched, else by the threads of a block and the blocks in all.

    **Raises:** DseError if that does not tell, with what is needed.
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
        table.fail(
            "columns", f"found no {names}, and the launch of {description.name} does not tell, {needed}"
        )
    shape = next(iter(parameters.values())).shape
    of_launch: dict[tuple[int, ...], list[int]] = {}
    for i, launch in enumerate(zip(*(np.broadcast_to(x, shape).tolist() for x in sizes), strict=True)):
        of_launch.setdefault(launch, []).append(i)

    places = []
    for row, cells in enumerate(zip(table.texts(BLOCK), table.texts(GRID), strict=True), start=1):
        block, grid = ([int(n) for n in re.findall(r"\d+", cell)] for cell in cells)
        launch = (*block, *grid) if len(sizes) == 6 else (math.prod(block), math.prod(grid))
        fitting = of_launch.get(launch, [])
        if len(fitting) != 1:
            count = f"{len(fitting)} configurations" if fitting else "no configuration"
            found = f"found {cells[1]} with blocks of {cells[0]}, which {count} of {description.name} have"
            table.fail(f"{GRID}, row {row}", f"{found}, {needed}")
        places += fitting
    columns = table.table
    for name, values in parameters.items():
        columns = columns.append_column(name, pa.array(values[places]))
    return replace(table, table=columns)


def _launches(description: Description, known: dict[str, Any]) -> list[Any] | None:
    """The block along x, y, z and the grid; or threads and blocks; None if they depend on the GPU."""
    for name, expression in description.let:
        if expression.names <= known.keys():
            known[name] = expression(known, np)
    build, launch = description.build, dict(description.launch)
    wanted = [launch[name] for name in ("threads", "blocks") if name in launch]
    if build is not None:
        wanted = [
            size for sizes in (build.block, build.grid) for size in (*sizes, *[None] * (3 - len(sizes)))
        ]
    if not wanted or not all(size is None or size.names <= known.keys() for size in wanted):
        return None
    return [1 if size is None else np.ceil(size(known, np)).astype(int) for size in wanted]


def _of_kernel(table: Table, description: Description) -> Table:
    """Keep the launches of one kernel: the only one in the file, or that with the description's name."""
    if KERNEL not in table.names:
        return table
    own = {description.name, description.build.kernel if description.build else ""}
    bare = np.array([re.sub(r"[<(].*", "", name).split(" ")[-1] for name in table.texts(KERNEL)])
    kernels = list(dict.fromkeys(bare.tolist()))
    if len(kernels) == 1:
        return table
    named = [kernel for kernel in kernels if kernel in own]
    if len(named) != 1:
        found = ", ".join(kernels[:5])
        table.fail(KERNEL, f"found {found}, expected one kernel, or one of them named {description.name}")
    return replace(table, table=table.table.filter(bare == named[0]))
