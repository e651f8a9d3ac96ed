"""`dse models`: which models there are, and what each leaves out."""

from inspect import getdoc
from typing import Annotated

import typer

from dse.cli.options import CsvOption, Group, JsonOption, OutOption, present

app = typer.Typer(name="models", cls=Group, rich_markup_mode="rich")


@app.callback(invoke_without_command=True, epilog="Example: [bold]dse models show mwp-cwp[/bold]")
def models(
    context: typer.Context, json: JsonOption = False, csv: CsvOption = False, out: OutOption = None
) -> None:
    """List the models."""
    if context.invoked_subcommand is None:
        from dse.models import MODELS

        rows = [{"name": name, "summary": _docstring(name).partition("\n")[0]} for name in MODELS]
        present(rows, title="Models", json=json, csv=csv, out=out)


@app.command(epilog="Example: [bold]dse models show mwp-cwp[/bold]")
def show(
    name: Annotated[str, typer.Argument(help="A model that `dse models` lists.")],
    json: JsonOption = False,
    csv: CsvOption = False,
    out: OutOption = None,
) -> None:
    """Tell what a model takes into account, what it leaves out, and where it comes from."""
    description = _docstring(name)
    if json or csv or out:
        present([{"name": name, "description": description}], json=json, csv=csv, out=out)
    else:
        print(f"{name}\n\n{description}")


def _docstring(model: str) -> str:
    from dse.models import module

    return getdoc(module(model)) or ""
