"""Options that several commands have, and the ways to print or write rows."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperGroup

from dse.errors import DseError

MORE = "More"  # a panel of options that --help-all explains
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Write a .parquet, .csv or .json file instead."),
]

WideOption = Annotated[bool, typer.Option("--wide", help="Show all columns, however wide the terminal is.")]


@dataclass(frozen=True)
class Output:
    """The options of rows: a table, JSON or CSV on the screen, or a file."""

    json: JsonOption = False
    csv: CsvOption = False
    out: OutOption = None
    wide: WideOption = False

    @property
    def table(self) -> bool:
        """Whether rows are shown as a table, to which more lines may be added."""
        return not (self.json or self.csv or self.out)

    def present(self, rows: Sequence[Mapping[str, Any]], **settings: Any) -> None:
        """Print or write rows; `settings` are those of `present`."""
        present(rows, json=self.json, csv=self.csv, out=self.out, wide=self.wide, **settings)

    def conclude(self, finding: str, **settings: Any) -> None:
        """Print the conclusion; `settings` are those of `dse.report.conclusion.conclude`."""
        from dse.report.conclusion import conclude

        conclude(finding, wrote=self.out, aside=self.json or self.csv, **settings)


@dataclass(frozen=True)
class SpreadOptions:
    """The options of work that runs on several processes or machines."""

    panel: ClassVar = "On several processes or machines"

    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=1024, help="Run on this many processes, by Dask.")
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the Dask cluster of this scheduler: tls://HOST:8786."),
    ] = None


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options as dataclasses: each field becomes an option of its own."""
    signature = inspect.signature(command, eval_str=True)
    groups, parameters = {}, []
    for parameter in signature.parameters.values():
        group = parameter.annotation
        if isinstance(group, type) and is_dataclass(group):
            groups[parameter.name] = (group, [field.name for field in fields(group)])
            parameters += _parameters(group)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def flat(**values: Any) -> None:
        objects = {
            name: group(**{option: values.pop(option) for option in options})
            for name, (group, options) in groups.items()
        }
        command(**values, **objects)

    flat.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _parameters(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    if panel := getattr(group, "panel", None):
        for field in fields(group):
            hints[field.name].__metadata__[0].rich_help_panel = panel
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def flow(app: typer.Typer) -> None:
    """Let help break lines where the terminal ends; empty lines part paragraphs."""
    for command in app.registered_commands:
        text = inspect.getdoc(command.callback) if command.callback else None
        if text and not command.help:
            command.help = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance:
            flow(group.typer_instance)


class CommandGroup(TyperGroup):
    """A command with subcommands whose context is what typer says it is: it hands out the base class."""

    context_class = typer.Context


def present(
    rows: Sequence[Mapping[str, Any]],
    *,
    json: bool = False,
    csv: bool = False,
    out: Path | None = None,
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
