"""Print a work flow graph as text of 80 columns: a node a line, dependence arcs in the margin."""

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from dse.core.files import replacing

_ARCS = 8  # columns of the margin, for parallel arcs
_NUMBERS = ("arc", "latency", "hidden", "waits")
_LEGEND = """
times: of an average warp; arc: cycles out of the node, each time; latency of a
load, and what other warps hide of it; waits: cycles of it that are left in
front of the node that uses it, each time"""


def show_work_flow(rows: Sequence[Mapping[str, Any]], title: str, svg: Path | None = None) -> None:
    """Print a graph, and write it as a picture. **Raises:** DseError if the file cannot be written."""
    lines = "\n".join([*text(rows), *_LEGEND.splitlines()])
    print(title, lines, sep="\n")
    if svg is not None:
        console = Console(record=True, width=82, file=StringIO())
        console.print(lines, markup=False, highlight=False)
        picture = console.export_svg(title=title)
        picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # fonts from the network
        with replacing(svg) as temporary:
            temporary.write_text(picture, encoding="utf-8")


def text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Format a line for each row: times, dependence arcs, node, and its cycles."""
    margin = [[" "] * _ARCS for _ in rows]
    issued: dict[str, int] = {}
    for number, row in [*enumerate(rows)] * 2:  # twice: the next loop trip may use a load before it
        for name in row.get("uses", ()):
            _draw(margin, issued.get(name, -1), number)
            issued[name] = -1
        issued.setdefault(row.get("load", ""), number)
    heading = f"{'times':>8} {'':{_ARCS}} {'node':26}" + "".join(f"{name:>9}" for name in _NUMBERS)
    return [heading, *(_line(row, "".join(arcs)) for row, arcs in zip(rows, margin, strict=True))]


def _draw(margin: Sequence[list[str]], load: int, use: int) -> None:
    """Draw an arc from a load (-1: none) in the first free column, if there is one."""
    top, bottom = sorted((load, use))
    free = [i for i in range(_ARCS) if all(line[i] == " " for line in margin[top : bottom + 1])]
    if top < 0 or not free:
        return
    for line in margin[top : bottom + 1]:
        line[free[0]] = "│"
    margin[top][free[0]], margin[bottom][free[0]] = "┌", "└"


def _line(row: Mapping[str, Any], arcs: str) -> str:
    node = "  " * row["depth"] + row["node"]
    numbers = "".join(f"{row[name]:>9.4g}" if name in row else " " * 9 for name in _NUMBERS)
    return f"{row['times']:>8.3g} {arcs} {node[:26]:26}{numbers}".rstrip()
