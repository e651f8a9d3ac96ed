"""Write the generated section of a page, or print it: `write_page.py models|reproduction [FILE.md]`.

`models` are the models' own declarations (docs/models.md), `reproduction` the papers' numbers compared with
ours (docs/reproduction.md).
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from inspect import getdoc
from itertools import groupby
from pathlib import Path

from ending import run_script

from dse.core.files import around, fill
from dse.errors import DseError, one_of
from dse.models import MODELS, module
from dse.models.about import ASPECTS
from dse.report.numbers import number
from dse.reproduce.papers import Row, cells, compare, paper, sums

COMPUTED = ("model", "equation")  # kinds of which the page has every number
HEAD = "| | paper | ours | difference | kind | why |\n| --- | ---: | ---: | ---: | --- | --- |"


def models() -> str:
    """Write tables of uses and aspects, and a section for each model."""
    declared = {name: module(name).ABOUT for name in MODELS}
    uses = [(f"[`{name}`](#{name})", about.use_when) for name, about in declared.items()]
    aspects = [
        (f"`{name}`", *("yes" if aspect in about.aspects else "" for aspect in ASPECTS))
        for name, about in declared.items()
    ]
    parts = ["## Which one", _table(("model", "use it"), uses)]
    parts += ["## What each takes into account", _table(("model", *ASPECTS), aspects)]
    for name, about in declared.items():
        parts += [f"## {name}", getdoc(module(name)) or "", f"**Reads:** {'; '.join(about.inputs)}."]
        equations = (f"- {label}: `{formula}`" for label, formula in about.equations.items())
        parts += ["**Equations:**", "\n".join(equations), f"**Leaves out:** {'; '.join(about.ignores)}."]
        if about.differs:
            differs = "; ".join(f"{aspect} ({why})" for aspect, why in about.differs.items())
            parts.append(f"**Not as Table 7 has it:** {differs}.")
        parts.append(f"**Source:** {about.source}.")
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def reproduction(papers: Mapping[str, list[Row]] | None = None) -> str:
    """Write the sums, then a section for each paper and a table for each of its tables."""
    papers = papers or compare()
    lines = ["| kind | numbers | agree | differ, each for a reason | |", "| --- | ---: | ---: | ---: | --- |"]
    for total in sums(row for rows in papers.values() for row in rows):
        kind, numbers, agree, explained, _, meaning = total.values()
        lines.append(f"| {kind} | {numbers} | {agree} | {explained} | {meaning} |")
    parts = ["\n".join(lines)]
    for name, rows in papers.items():
        parts.append(f"## {paper(name).TITLE}")
        for title, of_table in groupby(rows, key=lambda row: row.table):
            parts += [f"### {title}", _rows(of_table)]
    return "\n\n".join(parts)


def _rows(rows: Iterable[Row]) -> str:
    """Write a table of what a model computes and of what differs, and count the others."""
    rows = tuple(rows)
    shown = [row for row in rows if row.kind in COMPUTED or not row.agrees]
    kinds = [row.kind for row in rows if row not in shown]
    parts = [f"{HEAD}\n" + "\n".join(map(_line, shown))] if shown else []
    if kinds:
        parts.append(f"{len(kinds)} {'more ' if shown else ''}agree ({', '.join(dict.fromkeys(kinds))}).")
    return "\n\n".join(parts)


def _line(row: Row) -> str:
    ours = row.ours if isinstance(row.ours, str) else number(row.ours)
    difference = "" if row.agrees or row.percent is None else f"{row.percent:+.2g} %"
    return f"| {row.what} | {row.paper} | {ours} | {difference} | {row.kind} | {cells(row)['why']} |"


SECTIONS = {"models": models, "reproduction": reproduction}


def main(section: str = "", page: str = "") -> None:
    """Fill a page's section, or print it. **Raises:** DseError for another section or page."""
    if section not in SECTIONS:
        raise DseError(f"section: found {section!r}, {one_of(section, SECTIONS)}")
    if page:
        around(Path(page), section)  # fails before the work
        fill(Path(page), section, SECTIONS[section]())
    else:
        print(SECTIONS[section]())


if __name__ == "__main__":
    run_script(lambda: main(*sys.argv[1:3]))
