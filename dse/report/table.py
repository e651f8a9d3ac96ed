"""Print rows as a table for people, with the columns that fit into the terminal."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dse.data.columns import heading
from dse.errors import printable
from dse.report.numbers import number, plain, scale

# Columns that a narrow table keeps first, then the others from left to right.
FIRST = (
    *("rank", "gpu", "kernel", "model", "time_s", "predicted", "measured_s", "bottleneck", "top_10"),
    *("determined", "note", "spread_percent", "source", "why"),  # of fits and lists
)
NARROW, LONG = 12, 32  # least characters of a text column; longest word that is not broken
_BETWEEN = 3  # characters between two columns


@dataclass(frozen=True)
class TableColumn:
    """A printed column."""

    name: str
    header: str
    cells: tuple[str, ...]
    numeric: bool
    width: int  # characters

    @property
    def least(self) -> int:
        """The least width: numbers are never broken, headers and text only between words."""
        cells = max(map(len, self.cells), default=0)
        if not self.numeric:
            words = (len(word) for cell in self.cells for word in cell.split())
            cells = min(cells, max(NARROW, min(LONG, max(words, default=0))))
        return max(cells, *map(len, re.findall(r"[^ _]+_*", self.header)), 1)


def print_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    title: str | None,
    units: Mapping[str, str],
    section: str | None,
    wide: bool,
) -> None:
    """Print rows; see `dse.report.show.show`."""
    table_columns = [_column(name, rows, units) for name in columns]
    title = None if title is None else printable(title)
    console = Console()
    if wide or not console.is_terminal:  # a file or a pipe has no width
        console.width = 10_000
        with console.capture() as drawn:
            if title is not None:
                console.print(Text(title))
            console.print(_drawn(table_columns, rows, section))
        print("\n".join(line.rstrip() for line in drawn.get().splitlines()))
        return
    shown, same, left_out = fit(table_columns, console.width, section)
    if title is not None:
        console.print(Text(title, style="bold"))
    if same := [column for column in same if column.cells[0]]:
        values = ", ".join(f"{column.header} {column.cells[0]}" for column in same)
        console.print(Text(f"The same in these rows: {values}"), style="dim")
    console.print(_drawn(shown, rows, section))
    if left_out:
        names = ", ".join(column.name for column in left_out)
        console.print(
            Text(f"Not shown: {names}. A wider terminal, --wide, --csv and --json show them."), style="dim"
        )


def fit(
    columns: Sequence[TableColumn], width: int, section: str | None = None
) -> tuple[list[TableColumn], list[TableColumn], list[TableColumn]]:
    """Choose the columns that fit into a table of `width` characters.

    **Returns:** the columns shown, with final widths; columns that are the same in all rows; and columns that
    do not fit.
    """
    shown, same = list(columns), []
    if _total([column.width for column in shown]) <= width:
        return shown, [], []
    if len(shown[0].cells) > 1:
        same = [
            column for column in shown if column.name not in (*FIRST, section) and len(set(column.cells)) == 1
        ]
        shown = [column for column in shown if column not in same]
    order = sorted(shown, key=lambda column: FIRST.index(column.name) if column.name in FIRST else len(FIRST))
    left_out: list[TableColumn] = []
    while len(order) > 1 and _total([column.least for column in shown]) > width:
        left_out.insert(0, order.pop())
        shown = [column for column in shown if column in order]
    return _narrowed(shown, width), same, left_out


def _narrowed(columns: Sequence[TableColumn], width: int) -> list[TableColumn]:
    """Shrink the widest columns, one character at a time, until all fit."""
    widths, least = [column.width for column in columns], [column.least for column in columns]
    while _total(widths) > width:
        slack = [have if have > must else 0 for have, must in zip(widths, least, strict=True)]
        if not any(slack):
            break
        widths[slack.index(max(slack))] -= 1
    return [replace(column, width=width) for column, width in zip(columns, widths, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _BETWEEN * len(widths)


def _column(name: str, rows: Sequence[Mapping[str, Any]], units: Mapping[str, str]) -> TableColumn:
    values = [plain(row.get(name)) for row in rows]
    numeric = all(isinstance(x, int | float) or x is None for x in values)
    header, unit = heading(name, units.get(name))
    unit, worth = scale(values, unit)
    header = printable(header if unit == "1" else f"{header} [{unit}]")
    cells = tuple(_text(x, worth) for x in values)
    return TableColumn(name, header, cells, numeric, max(map(len, (header, *cells))))


def _drawn(columns: Sequence[TableColumn], rows: Sequence[Mapping[str, Any]], section: str | None) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        # `Text` prevents rich from interpreting markup.
        header, justify = Text(_wrapped(column.header, column.width)), "right" if column.numeric else "left"
        table.add_column(header, justify=justify, width=column.width, overflow="fold")
    for i, cells in enumerate(zip(*(column.cells for column in columns), strict=True)):
        if section and i and rows[i].get(section) != rows[i - 1].get(section):
            table.add_section()
        table.add_row(*map(Text, cells))
    return table


def _wrapped(header: str, width: int) -> str:
    """Wrap a header to lines of `width` characters."""
    lines = [""]
    for piece in re.findall(r"[^ _]*[ _]*", header):
        if lines[-1] and len((lines[-1] + piece).rstrip(" ")) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip(" ") for line in lines)


def _text(x: Any, worth: float) -> str:
    """Format a value for a table."""
    if x is None:
        return ""
    if isinstance(x, bool):
        return "yes" if x else "no"
    if isinstance(x, int | float):
        return number(x if worth == 1 else x / worth)
    if isinstance(x, list):
        return ", ".join(_text(value, worth) for value in x)
    return printable(str(x))
