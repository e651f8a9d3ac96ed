"""`dse models`: the models, and the aspects that each takes into account."""

from inspect import getdoc
from typing import Annotated

import typer

from dse.cli.options import App, CommandGroup, Output, grouped
from dse.models import DEFAULT, MODELS, module
from dse.models.about import ASPECTS

app = App(name="models", cls=CommandGroup)


@app.callback(invoke_without_command=True, epilog="Example: [bold]dse models show mwp-cwp[/bold]")
@grouped
def models(context: typer.Context, *, output: Output) -> None:
    """List the models."""
    if context.invoked_subcommand is None:
        summaries = {name: " ".join(_docstring(name).partition("\n\n")[0].split()) for name in MODELS}
        rows = [{"name": name, "summary": summary} for name, summary in summaries.items()]
        output.present(rows, title="Models")
        finding = f"{len(rows)} models; {DEFAULT} is the default, the best on measured spaces"
        output.conclude(finding, then="dse models show NAME says what it takes into account")


@app.subcommand("Example: [bold]dse models show mwp-cwp[/bold]")
def show(
    name: Annotated[str, typer.Argument(help="A model that `dse models` lists.")], *, output: Output
) -> None:
    """Show a model's inputs, equations, limitations, use and source."""
    description, about = _docstring(name), module(name).ABOUT
    row = {
        "name": name,
        "description": description,
        "source": about.source,
        "inputs": list(about.inputs),
        "equations": [f"{number}: {formula}" for number, formula in about.equations.items()],
        "leaves_out": list(about.ignores),
        "use_when": about.use_when,
        "aspects": [aspect for aspect in ASPECTS if aspect in about.aspects],
    }
    if not output.table:
        output.present([row])
        return
    from rich.console import Console

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
    output.conclude(
        f"{name} takes {len(row['aspects'])} of {len(ASPECTS)} aspects into account",
        then=f"dse rank KERNEL -g a100 -m {name}",
    )


@app.subcommand("Example: [bold]dse models aspects[/bold]")
def aspects(*, output: Output) -> None:
    """Show the aspects of performance that each model takes into account, as in Table 7 of Lemeire et al."""
    declared = {name: module(name).ABOUT.aspects for name in MODELS}
    rows = [{"model": name} | {aspect: aspect in declared[name] for aspect in ASPECTS} for name in MODELS]
    output.present(rows, title="Aspects")
    most = max(declared, key=lambda name: len(declared[name]))
    finding = f"{most} takes the most aspects into account, {len(declared[most])} of {len(ASPECTS)}"
    output.conclude(finding, then="dse models show NAME")


def _docstring(model: str) -> str:
    return getdoc(module(model)) or ""
