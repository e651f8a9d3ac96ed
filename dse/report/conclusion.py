"""The conclusion of a command: its last line, in the same form for all."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from dse.errors import one_line
from dse.report.numbers import number, plain, scale


def conclude(
    finding: str, *, sure: str = "", wrote: Path | str | None = None, then: str = "", aside: bool = False
) -> None:
    """Print the last line: the finding, its certainty, the file written, and the next step.

    `aside` prints it to standard error, if that is a terminal and DSE_QUIET is not set: for commands whose
    standard output is JSON or CSV.
    """
    parts = [finding, sure, f"wrote {wrote}" if wrote else "", f"next: {then}" if then else ""]
    line = one_line("; ".join(filter(None, parts)))
    if not aside:
        print_words(line, "bold")
    elif not os.environ.get("DSE_QUIET") and Console(stderr=True).is_terminal:
        Console(stderr=True).print(Text(line))


def print_words(text: str, style: str = "") -> None:
    """Print a text, wrapped between words on a terminal."""
    console = Console()
    if console.is_terminal:
        console.print(Text(text, style=style))
    else:
        print(text)


def configuration(row: Mapping[str, Any], names: Collection[str]) -> str:
    """Format the parameters of a row: `block 64, items 4`."""
    return ", ".join(f"{name} {number_or_word(row[name])}" for name in names if row.get(name) is not None)


def number_or_word(x: Any) -> str:
    """Format a value as in tables."""
    x = plain(x)
    return number(x) if isinstance(x, int | float) and not isinstance(x, bool) else str(x)


def quantity(x: float | None, unit: str = "s") -> str:
    """Format a number with a suitable prefix: `440.9 µs`."""
    if x is None:
        return "no time"
    prefixed, worth = scale([x], unit)
    return f"{number(x / worth)} {prefixed}"
