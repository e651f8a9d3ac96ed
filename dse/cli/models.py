"""`dse models`: which models there are, and what each takes into account and leaves out."""

from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dse.cli.options import CommandGroup, CsvOption, JsonOption, OutOption, WideOption, present
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.models.about import About

app = typer.Typer(name="models", cls=CommandGroup, rich_markup_mode="rich")


@app.callback(invoke_without_command=True, epilog="Example: [bold]dse models show mwp-cwp[/bold]")
def models(
    context: typer.Context,
    json: JsonOption = False,
    csv: CsvOption = False,
    out: OutOption = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.md", help="Write what the models say of themselves between the markers of a page."
        ),
    ] = None,
) -> None:
    """List the models."""
    if page is not None:
        if json or csv or out or context.invoked_subcommand:
            raise DseError("--page: found together with another option or command, expected it alone")
        _write(page)
    elif context.invoked_subcommand is None:
        from dse.models import DEFAULT, MODELS
        from dse.report.conclusion import conclude

        rows = [{"name": name, "summary": _docstring(name).partition("\n")[0]} for name in MODELS]
        present(rows, title="Models", json=json, csv=csv, out=out)
        if not (json or csv):
            finding = f"{len(rows)} models; {DEFAULT} is the default, the best on measured spaces"
            conclude(finding, wrote=out, then="dse models show NAME says what it takes into account")


@app.command(epilog="Example: [bold]dse models show mwp-cwp[/bold]")
def show(
    name: Annotated[str, typer.Argument(help="A model that `dse models` lists.")],
    json: JsonOption = False,
    csv: CsvOption = False,
    out: OutOption = None,
) -> None:
    """Tell what a model reads, its equations, what it leaves out, when to use it, and where it comes from."""
    description, about = _docstring(name), _about(name)
    row = {
        "name": name,
        "description": description,
        "source": about.source,
        "inputs": list(about.inputs),
        "equations": [f"{number}: {formula}" for number, formula in about.equations.items()],
        "leaves_out": list(about.ignores),
        "use_when": about.use_when,
        "aspects": [aspect for aspect in _aspects() if aspect in about.aspects],
    }
    if json or csv or out:
        present([row], json=json, csv=csv, out=out)
        return
    from rich.console import Console

    from dse.report.conclusion import conclude

    text = [name, *("\n" + " ".join(part.split()) for part in description.split("\n\n"))]
    for title, lines in (
        ("Reads", row["inputs"]),
        ("Equations", row["equations"]),
        ("Leaves out", row["leaves_out"]),
        ("Takes into account", row["aspects"]),
        ("Not as Table 7 of Lemeire et al. has it", [": ".join(pair) for pair in about.differs.items()]),
        ("Use it", [about.use_when]),
        ("Source", [about.source]),
    ):
        text += ["", title, *(f"  {line}" for line in lines)] if lines else []
    Console(highlight=False, markup=False).print("\n".join(text) + "\n")
    conclude(
        f"{name} takes {len(row['aspects'])} of {len(_aspects())} aspects into account",
        then=f"dse rank KERNEL -g a100 -m {name}",
    )


@app.command(epilog="Example: [bold]dse models aspects[/bold]")
def aspects(
    json: JsonOption = False, csv: CsvOption = False, wide: WideOption = False, out: OutOption = None
) -> None:
    """Which aspects of performance each model takes into account, as in Table 7 of Lemeire et al."""
    from dse.models import MODELS

    declared = {name: _about(name).aspects for name in MODELS}
    rows = [{"model": name} | {aspect: aspect in declared[name] for aspect in _aspects()} for name in MODELS]
    present(rows, title="Aspects", json=json, csv=csv, out=out, wide=wide)


def _write(page: Path) -> None:
    from dse.core.files import fill
    from dse.models import MODELS
    from dse.report.models_page import markdown

    models = {name: (_docstring(name), _about(name)) for name in MODELS}
    fill(page, "models", markdown(models, _aspects()))


def _aspects() -> tuple[str, ...]:
    from dse.models.about import ASPECTS

    return ASPECTS


def _about(model: str) -> "About":
    from dse.models import module

    return module(model).ABOUT


def _docstring(model: str) -> str:
    from dse.models import module

    return getdoc(module(model)) or ""
