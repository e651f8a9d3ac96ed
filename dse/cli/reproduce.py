"""`dse reproduce`: the papers' tables and worked examples beside ours."""

from typing import Annotated

import typer

from dse.cli.options import CsvOption, JsonOption, OutOption, present

app = typer.Typer(rich_markup_mode="rich")


@app.command(epilog="Example: [bold]dse reproduce hong-kim --differing[/bold]")
def reproduce(
    paper: Annotated[
        list[str] | None,
        typer.Argument(help="hong-kim, baghsorkhi, kothapalli, teg or lemeire; all where none is named."),
    ] = None,
    differing: Annotated[
        bool, typer.Option("--differing", help="Only where ours is not the paper's.")
    ] = False,
    json: JsonOption = False,
    csv: CsvOption = False,
    out: OutOption = None,
) -> None:
    """Work out the papers' tables and examples again and tell where, and why, the numbers differ.

    Ours agrees where, rounded as the paper rounds, it is what the paper prints.
    """
    from dse.reproduce.compare import PAPERS, compare
    from dse.reproduce.papers import cells

    rows = [
        {"paper": name} | cells(row)
        for name, found in compare(paper or PAPERS).items()
        for row in found
        if not (differing and row.agrees)
    ]
    present(rows, title="Reproduction", json=json, csv=csv, out=out, section="paper")
