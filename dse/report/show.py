"""Rows as a table, JSON or CSV on standard output, and a bar while the work goes on."""

import csv as csv_module
import json as json_module
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

Row = Mapping[str, Any]

# Prefixed units and their worth, largest first; a unit that is not named here is shown as it is.
PREFIXES = {
    "s": {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9},
    "Hz": {"GHz": 1e9, "MHz": 1e6, "kHz": 1e3, "Hz": 1},
    "B/s": {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1},
    "B": {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1},
}


def show(
    rows: Sequence[Row] | Mapping[str, Iterable[Any]],
    *,
    title: str | None = None,
    json: bool = False,
    csv: bool = False,
    units: Mapping[str, str] | None = None,
    section: str | None = None,
) -> None:
    """Print rows to standard output: a table for people, or JSON or CSV for programs.

    `rows` is a list of rows or a mapping of columns; a column is named by the row that has it first,
    and a row may lack it. `units` gives the unit of a column: the table takes one prefix for the whole
    column, from its median, while JSON and CSV keep the numbers as they are. A line parts the
    rows of a table where their `section` changes.
    """
    if isinstance(rows, Mapping):
        columns = list(rows)
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    else:
        columns = list(dict.fromkeys(name for row in rows for name in row))
    if json:
        print(json_module.dumps(_finite(_plain(list(rows))), indent=2, ensure_ascii=False, allow_nan=False))
    elif csv:
        writer = csv_module.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(_plain(row.get(name))) for name in columns] for row in rows)
    elif not rows:
        print(f"{title}: none" if title else "none")
    else:
        _print_table(rows, columns, title, units or {}, section)


def number(x: float) -> str:
    """Write four significant digits; whole numbers in full, very large and small ones with an exponent."""
    if not math.isfinite(x):
        return str(x)
    if isinstance(x, int) or (abs(x - round(x)) <= 1e-6 * abs(x) and abs(x) < 1e7):  # in single precision
        return str(round(x))
    if not 1e-4 <= abs(x) < 1e7:
        return f"{x:.3e}"
    return f"{x:.{max(0, 3 - math.floor(math.log10(abs(x))))}f}"


def scale(values: Sequence[Any], unit: str) -> tuple[str, float]:
    """Choose the prefixed unit that suits the median of `values`, in `unit`; return it and its worth."""
    sizes = sorted(abs(x) for x in values if isinstance(x, int | float) and x and math.isfinite(x))
    if unit not in PREFIXES or not sizes:
        return unit, 1
    prefixed = list(PREFIXES[unit].items())
    return next((pair for pair in prefixed if sizes[len(sizes) // 2] >= pair[1]), prefixed[-1])


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """Show a bar on standard error for work of `total` steps; call what it gives with the steps just done.

    It shows itself after a second, goes when the work is done, and stays silent where standard error
    is no terminal.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda steps: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(description, total=total)
    begun = monotonic()
    shown = False

    def advance(steps: float) -> None:
        nonlocal shown
        bar.advance(task, steps)
        if not shown and monotonic() - begun > 1:
            bar.start()
            shown = True

    try:
        yield advance
    finally:
        if shown:
            bar.stop()


def _print_table(
    rows: Sequence[Row],
    columns: Sequence[str],
    title: str | None,
    units: Mapping[str, str],
    section: str | None,
) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    cells = []
    for name in columns:
        values = [_plain(row.get(name)) for row in rows]
        numeric = all(isinstance(x, int | float) or x is None for x in values)
        unit, worth = scale(values, units[name]) if name in units else ("1", 1)
        header = name if unit == "1" else f"{name} [{unit}]"
        table.add_column(Text(header), justify="right" if numeric else "left", overflow="fold")
        cells.append([_text(x, worth) for x in values])
    for i, row in enumerate(zip(*cells, strict=True)):
        if section and i and rows[i].get(section) != rows[i - 1].get(section):
            table.add_section()
        table.add_row(*row)
    console = Console()
    if console.is_terminal:
        console.print(table)
    else:  # a file or a pipe has no width
        console.width = 10_000
        with console.capture() as drawn:
            console.print(table)
        print("\n".join(line.rstrip() for line in drawn.get().splitlines()))


def _plain(x: Any) -> Any:
    """Return a value in Python's own types: arrays as lists, NumPy's and JAX's numbers as Python's."""
    if hasattr(x, "tolist"):
        x = x.tolist()
    if isinstance(x, Mapping):
        return {str(key): _plain(value) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return [_plain(value) for value in x]
    return x if x is None or isinstance(x, bool | int | float) else str(x)


def _finite(x: Any) -> Any:
    """Replace infinity and NaN, which JSON does not know, by None."""
    if isinstance(x, dict):
        return {key: _finite(value) for key, value in x.items()}
    if isinstance(x, list):
        return [_finite(value) for value in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x


def _cell(x: Any) -> Any:
    """Return a value as CSV has it: lists apart by spaces."""
    return " ".join(str(value) for value in x) if isinstance(x, list) else x


def _text(x: Any, worth: float) -> Text:
    """Return a value as the table has it. `Text` keeps rich from reading markup into it."""
    if x is None:
        return Text("")
    if isinstance(x, bool):
        return Text("yes" if x else "no")
    if isinstance(x, int | float):
        return Text(number(x if worth == 1 else x / worth))
    if isinstance(x, list):
        return Text(", ".join(_text(value, worth).plain for value in x))
    return Text(str(x))
