"""Options that every command has, and the one way to print or write rows."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dse.errors import DseError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Write a .parquet, .csv or .json file instead."),
]

WideOption = Annotated[bool, typer.Option("--wide", help="Show all columns, however wide the terminal is.")]


def flow(app: typer.Typer) -> None:
    """Let help break lines where the terminal ends; empty lines part paragraphs."""
    for command in app.registered_commands:
        text = inspect.getdoc(command.callback) if command.callback else None
        if text and not command.help:
            command.help = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance:
            flow(group.typer_instance)


class Group(TyperGroup):
    """A command with subcommands whose context is what typer says it is: it hands out the base class."""

    context_class = typer.Context


def present(
    rows: Sequence[Mapping[str, Any]],
    *,
    json: bool,
    csv: bool,
    out: Path | None,
    title: str | None = None,
    units: Mapping[str, str] | None = None,
    section: str | None = None,
    wide: bool = False,
    hidden: Collection[str] = (),
) -> None:
    """Print rows as `dse.report.show` does, or write them to the file `out`."""
    if json and csv:
        raise DseError("--csv: found together with --json, expected one of them")
    if out is None:
        from dse.report.show import show

        show(rows, title=title, json=json, csv=csv, units=units, section=section, wide=wide, hidden=hidden)
    else:
        from dse.data.tables import write_table

        columns = dict.fromkeys(name for row in rows for name in row)
        write_table(out, {name: [row.get(name) for row in rows] for name in columns}, units)
