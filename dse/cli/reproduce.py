"""`dse reproduce`: the papers' tables and worked examples, compared with our values."""

import sys
from typing import Annotated

import typer

from dse.cli.options import Output, command

SHORT = ("paper", "table", "what", "printed", "ours", "why")  # columns of differing rows


@command("Examples: [bold]dse reproduce hong-kim --differing[/bold]; [bold]dse reproduce --sums[/bold]")
def reproduce(
    *,
    paper: Annotated[
        list[str] | None,
        typer.Argument(help="hong-kim, baghsorkhi, kothapalli, teg or lemeire; default: all."),
    ] = None,
    differing: Annotated[
        bool, typer.Option("--differing", help="Only numbers that differ from the paper's.")
    ] = False,
    only_sums: Annotated[
        bool, typer.Option("--sums", help="Only the count of agreeing numbers of each kind.")
    ] = False,
    output: Output,
) -> None:
    """Recompute the papers' tables and examples, and show where and why numbers differ.

    A number agrees if it equals the paper's after rounding as the paper does. The sums at the end separate
    numbers computed by a model from those only looked up, declared or averaged. Exit code 1 if a number
    differs without a stated reason.
    """
    from dse.reproduce.papers import PAPERS, cells, compare, problems, sums

    papers = compare(paper or PAPERS)
    totals = sums(row for rows in papers.values() for row in rows)
    if only_sums:
        output.present(totals, title="Sums")
    else:
        rows = [
            {"paper": name} | cells(row)
            for name, paper_rows in papers.items()
            for row in paper_rows
            if not (differing and row.agrees)
        ]
        if differing:
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
