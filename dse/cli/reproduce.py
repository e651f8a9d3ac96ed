"""`dse reproduce`: the papers' tables and worked examples beside ours."""

import sys
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dse.cli.options import Output, grouped
from dse.core.files import around, fill
from dse.errors import DseError

if TYPE_CHECKING:
    from dse.reproduce.papers import Row

app = typer.Typer(rich_markup_mode="rich")

SHORT = ("paper", "table", "what", "printed", "ours", "why")  # of a row that differs
SECTION = "reproduction"  # of a page


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
    page: Annotated[
        Path | None,
        typer.Option(
            "--page",
            metavar="FILE",
            help="Write all of it as Markdown between the markers of a page; - prints it.",
        ),
    ] = None,
    output: Output,
) -> None:
    """Compute the papers' tables and examples again and tell where, and why, the numbers differ.

    Ours agrees where, rounded as the paper rounds, it is what the paper prints. The sums at the end count
    apart what a model computes and what is only looked up, declared or averaged. Exit code 1 where a number
    differs and no reason of its own says why.
    """
    from dse.reproduce.compare import PAPERS, compare, problems
    from dse.reproduce.papers import cells, sums

    if page and (paper or differing or only_sums or not output.table):
        raise DseError("--page: found other options beside it, expected none: a page has everything")
    if page and str(page) != "-":
        around(page, SECTION)  # before the work
    papers = compare(paper or PAPERS)
    totals = sums(row for rows in papers.values() for row in rows)
    if page:
        _write(page, _markdown(papers))
    else:
        rows = [
            {"paper": name} | cells(row)
            for name, some in papers.items()
            for row in some
            if not (differing and row.agrees)
        ]
        if differing:  # why is what one asks
            rows = [{name: row[name] for name in SHORT} for row in rows]
        if only_sums:
            output.present(totals, title="Sums")
        else:
            output.present(rows, title="Reproduction", section="paper")
            if output.table:
                output.present(totals, title="Sums")
    unexplained = problems(papers)
    if not page:
        numbers, agree = (sum(total[name] for total in totals) for name in ("numbers", "agree"))
        sure = "each of the others has a reason" if not unexplained else f"{len(unexplained)} have no reason"
        then = "" if differing else "--differing shows only the others, and why"
        finding = f"{agree} of {numbers} numbers agree as printed"
        output.conclude(finding, sure=sure, then=then)
    for line in unexplained:
        print(f"dse: {line}", file=sys.stderr)
    if unexplained:
        raise typer.Exit(1)


def _write(page: Path, markdown: str) -> None:
    if str(page) == "-":
        print(markdown)
    else:
        fill(page, SECTION, markdown)


def _markdown(papers: Mapping[str, list["Row"]]) -> str:
    """Write the sums, then a section a paper and a table a table."""
    from dse.reproduce.compare import paper
    from dse.reproduce.papers import sums

    lines = ["| kind | numbers | agree | differ, each for a reason | |", "| --- | ---: | ---: | ---: | --- |"]
    for total in sums(row for rows in papers.values() for row in rows):
        kind, numbers, agree, explained, _, meaning = total.values()
        lines.append(f"| {kind} | {numbers} | {agree} | {explained} | {meaning} |")
    parts = ["\n".join(lines)]
    for name, rows in papers.items():
        parts.append(f"## {paper(name).TITLE}")
        for title, some in groupby(rows, key=lambda row: row.table):
            parts += [f"### {title}", _table(some)]
    return "\n\n".join(parts)


def _table(rows: Iterable["Row"]) -> str:
    from dse.report.numbers import number
    from dse.reproduce.papers import cells

    lines = ["| | paper | ours | difference | kind | why |", "| --- | ---: | ---: | ---: | --- | --- |"]
    for row in rows:
        ours = row.ours if isinstance(row.ours, str) else number(row.ours)
        difference = "" if row.agrees or row.percent is None else f"{row.percent:+.2g} %"
        lines.append(
            f"| {row.what} | {row.paper} | {ours} | {difference} | {row.kind} | {cells(row)['why']} |"
        )
    return "\n".join(lines)
