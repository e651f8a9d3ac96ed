"""The papers' tables and worked examples beside ours: `reproduce.py [--json] [-o docs/reproduction.md]`.

Prints Markdown, or one JSON object, or writes between the markers of the page. Exit code 1 where a number
differs and nobody says why.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from dse.errors import DseError
from dse.files import fill
from dse.report.show import number
from dse.reproduce.compare import compare, paper
from dse.reproduce.papers import Row, cells


def markdown(found: dict[str, list[Row]]) -> str:
    """A section a paper, a table a table."""
    agree = sum(row.agrees for rows in found.values() for row in rows)
    total = sum(map(len, found.values()))
    parts = [f"{agree} of {total} numbers agree; of each of the others the reason stands beside it."]
    for name, rows in found.items():
        parts.append(f"## {paper(name).TITLE}")
        for title, some in groupby(rows, key=lambda row: row.table):
            parts += [f"### {title}", _table(some)]
    return "\n\n".join(parts)


def _table(rows: Iterable[Row]) -> str:
    lines = ["| | paper | ours | difference | why |", "| --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        ours = row.ours if isinstance(row.ours, str) else number(row.ours)
        shown, why = "", ""
        if not row.agrees:
            shown, why = "" if row.percent is None else f"{row.percent:+.2g} %", row.why
        lines.append(f"| {row.what} | {row.paper} | {ours} | {shown} | {why} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("-o", "--out", type=Path, help="a page with the two markers, to be filled")
    options = parser.parse_args()
    found = compare()
    unexplained = [row for rows in found.values() for row in rows if not (row.agrees or row.why)]
    try:
        if options.json:
            papers = {
                name: {"title": paper(name).TITLE, "rows": [cells(row) for row in rows]}
                for name, rows in found.items()
            }
            print(json.dumps({"papers": papers, "explained": not unexplained}, ensure_ascii=False))
        elif options.out is None:
            print(markdown(found))
        else:
            fill(options.out, "reproduction", markdown(found))
    except DseError as error:
        print(f"reproduce.py: {error}", file=sys.stderr)
        return 2
    for row in unexplained:
        print(f"reproduce.py: {row.table}: {row.what}: found {row.ours}, paper {row.paper}", file=sys.stderr)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
