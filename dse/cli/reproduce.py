"""`dse reproduce`: the papers' tables and worked examples beside ours."""

import sys
from typing import Annotated

import typer

from dse.cli.options import Output, grouped

app = typer.Typer(rich_markup_mode="rich")

SHORT = ("paper", "table", "what", "printed", "ours", "why")  # of a row that differs


@app.command(
    epilog="Examples: [bold]dse reproduce hong-kim --differing[/bold]; [bold]dse reproduce --sums[/bold]"
)
@grouped
def reproduce(
    *,
    paper: Annotated[
        list[str] | None,
        typer.Argument(help="hong-kim, baghsorkhi, kothapalli, teg or lemeire; all where none is named."),
    ] = None,
    differing: Annotated[
        bool, typer.Option("--differing", help="Only where ours is not the paper's.")
    ] = False,
    only_sums: Annotated[
        bool, typer.Option("--sums", help="Only how many numbers of each kind agree.")
    ] = False,
    output: Output,
) -> None:
    """Compute the papers' tables and examples again and tell where, and why, the numbers differ.

    Ours agrees where, rounded as the paper rounds, it is what the paper prints. The sums at the end count
    apart what a model computes and what is only looked up, declared or averaged. Exit code 1 where a number
    differs and no reason of its own says why.
    """
    from dse.reproduce.compare import PAPERS, compare, problems
    from dse.reproduce.papers import cells, sums

    papers = compare(paper or PAPERS)
    totals = sums(row for rows in papers.values() for row in rows)
    if only_sums:
        output.present(totals, title="Sums")
    else:
        rows = [
            {"paper": name} | cells(row)
            for name, some in papers.items()
            for row in some
            if not (differing and row.agrees)
        ]
        if differing:  # why is what one asks
            rows = [{name: row[name] for name in SHORT} for row in rows]
        output.present(rows, title="Reproduction", section="paper")
        if output.table:
            output.present(totals, title="Sums")
    unexplained = problems(papers)
    numbers, agree = (sum(total[name] for total in totals) for name in ("numbers", "agree"))
    sure = "each of the others has a reason" if not unexplained else f"{len(unexplained)} have no reason"
    then = "" if differing else "--differing shows only the others, and why"
    output.conclude(f"{agree} of {numbers} numbers agree as printed", sure=sure, then=then)
    for line in unexplained:
        print(f"dse: {line}", file=sys.stderr)
    if unexplained:
        raise typer.Exit(1)
