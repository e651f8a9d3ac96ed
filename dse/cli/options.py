"""Options shared by commands, and printing or writing of rows."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperGroup

from dse.errors import DseError

MORE = "More"  # panel of options explained by --help-all
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class Screen:
    """Options for printing rows: a table, JSON or CSV."""

    json: JsonOption = False
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False
    wide: Annotated[bool, typer.Option("--wide", help="Show all columns on any terminal.")] = False

    def __post_init__(self) -> None:
        if self.json and self.csv:
            raise DseError("--csv: found together with --json, expected one of them")

    @property
    def table(self) -> bool:
        """Whether rows are shown as a table, so that further lines may be printed."""
        return not (self.json or self.csv)

    def present(self, rows: Sequence[Mapping[str, Any]], **settings: Any) -> None:
        """Print rows with the `settings` of `dse.report.show.show`."""
        from dse.report.show import show

        show(rows, json=self.json, csv=self.csv, wide=self.wide, **settings)

    def conclude(self, finding: str, **settings: Any) -> None:
        """Print the conclusion with the `settings` of `dse.report.conclusion.conclude`."""
        from dse.report.conclusion import conclude

        conclude(finding, aside=self.json or self.csv, **settings)


@dataclass(frozen=True)
class Output(Screen):
    """Options for printing rows, or writing them to a file."""

    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Write a .parquet, .csv or .json file instead."),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out is not None:  # before the work
            from dse.core.files import check_target
            from dse.data.tables import check_suffix

            check_suffix(self.out)
            check_target(self.out)

    @property
    def table(self) -> bool:
        """Whether rows are shown as a table, so that further lines may be printed."""
        return self.out is None and super().table

    def present(
        self, rows: Sequence[Mapping[str, Any]], *, units: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        """Print rows with the `settings` of `dse.report.show.show`, or write them."""
        if self.out is None:
            super().present(rows, units=units, **settings)
        else:
            from dse.data.tables import write_rows

            write_rows(self.out, rows, units)

    def conclude(self, finding: str, **settings: Any) -> None:
        """Print the conclusion with the file written."""
        super().conclude(finding, wrote=self.out, **settings)


@dataclass(frozen=True)
class ExecutorOptions:
    """Options for running on several processes or machines."""

    panel: ClassVar = "On several processes or machines"

    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=1024, help="Run on this many processes, by Dask.")
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the Dask cluster of this scheduler: tls://HOST:8786."),
    ] = None


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options as dataclasses: each field becomes an option."""
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


class App(typer.Typer):
    """An application whose commands take groups of options, and whose help is wrapped to the terminal."""

    def subcommand(self, epilog: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Declare a command; see `grouped`. Paragraphs of its docstring are unwrapped."""

        def declare(function: Callable[..., None]) -> Callable[..., None]:
            paragraphs = (inspect.getdoc(function) or "").split("\n\n")
            text = "\n\n".join(" ".join(part.split()) for part in paragraphs)
            return self.command(help=text, epilog=epilog)(grouped(function))

        return declare


def command(epilog: str) -> Callable[[Callable[..., None]], App]:
    """Declare the only command of a module: its function becomes an application."""

    def declare(function: Callable[..., None]) -> App:
        app = App()
        app.subcommand(epilog)(function)
        return app

    return declare


class CommandGroup(TyperGroup):
    """A command with subcommands whose context is a typer.Context; typer itself creates the base class."""

    context_class = typer.Context
