"""Show the explanation of a kernel's counts, as tables or as one JSON object."""

from collections.abc import Mapping, Sequence
from typing import Any

from dse.report.conclusion import print_words
from dse.report.numbers import json_text
from dse.report.show import show

Row = Mapping[str, Any]

# Titles of the parts of an explanation that are lists of rows.
_TITLES = {
    "mix": "Instructions of the average warp, by pipe",
    "phases": "Phases, from a barrier to the next: one pass of the average warp",
    "accesses": "Memory instructions of the average warp; pieces: sectors, or passes through shared memory",
    "branches": "Conditional branches, of the average warp",
    "lines": "Lines of the source, of the average warp",
    "unknown": "Decisions by data that was not stated",
}


def show_explanation(parts: Mapping[str, Any], title: str, json: bool) -> None:
    """Print an explanation to standard output.

    `parts` holds mappings of names to values, and lists of rows; tables omit empty parts.
    """
    if json:
        print(json_text(parts))
        return
    print_words(title)
    for name, part in parts.items():
        if name == "phases":
            part = _transposed(part)
        if isinstance(part, Mapping) and part:
            show([part], title=name)
        elif isinstance(part, Sequence) and not isinstance(part, str) and part:
            show(_without_empty(part), title=_TITLES.get(name, name))


def _transposed(phases: Sequence[Row]) -> list[Row]:
    """Make each number a row and each phase a column: there are few phases and many numbers."""
    names = dict.fromkeys(name for phase in phases for name in phase if name != "phase")
    return [
        {"name": name.replace("_", " ")} | {f"phase {phase['phase']}": phase.get(name) for phase in phases}
        for name in names
    ]


def _without_empty(rows: Sequence[Row]) -> list[Row]:
    """Drop columns that are empty in all rows."""
    filled = {name for row in rows for name, value in row.items() if value not in (None, "")}
    return [{name: value for name, value in row.items() if name in filled} for row in rows]
