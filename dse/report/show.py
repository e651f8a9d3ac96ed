"""Rows as a table, JSON or CSV on standard output, and a bar while the work goes on."""

import csv as csv_module
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dse.data.tables import harmless
from dse.report.numbers import json_text, plain
from dse.report.table import print_table

Row = Mapping[str, Any]


def show(
    rows: Sequence[Row] | Mapping[str, Iterable[Any]],
    *,
    title: str | None = None,
    json: bool = False,
    csv: bool = False,
    units: Mapping[str, str] | None = None,
    section: str | None = None,
    wide: bool = False,
    hidden: Collection[str] = (),
) -> None:
    """Print rows to standard output: a table for people, or JSON or CSV for programs.

    `rows` is a list of rows or a mapping of columns; a column is named by the row that has it first,
    and a row may lack it. `units` gives the units of columns that `dse.data.columns` does not know: the table
    takes one prefix for the whole column, from its median, while JSON and CSV keep the numbers as they are. A
    line parts the rows of a table where their `section` changes. On a terminal a table has the columns that
    there is room for; elsewhere it has all of them. Neither has those that are `hidden`: what the title says,
    or what is the same for all. A `wide` table has all of them everywhere. Control
    characters are written out, and CSV has a ' before what a spreadsheet would take for a formula.
    """
    if isinstance(rows, Mapping):
        columns = list(rows)
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    else:
        columns = list(dict.fromkeys(name for row in rows for name in row))
    if json:
        print(json_text(list(rows)))
    elif csv:
        writer = csv_module.writer(sys.stdout, lineterminator="\n")
        writer.writerow(map(harmless, columns))
        writer.writerows([harmless(_cell(plain(row.get(name)))) for name in columns] for row in rows)
    elif not rows:
        print(f"{title}: none" if title else "none")
    else:
        shown = columns if wide else [name for name in columns if name not in hidden]
        print_table(rows, shown, title, units or {}, section, wide)


def bars(shares: Mapping[str, float], title: str, least: float = 0.01, width: int = 40) -> None:
    """Print shares, 0 to 1, as bars of per cent, without those below `least`; of none, nothing."""
    shown = {name: share for name, share in shares.items() if share >= least}
    if not shown:
        return
    eighths = " ▏▎▍▌▋▊▉"
    print(f"{title}\n")
    for name, share in shown.items():
        full, part = divmod(round(8 * width * min(share, 1.0)), 8)
        bar = "█" * full + eighths[part].strip()
        print(f" {name:{max(map(len, shown))}}  {bar:{width}}  {share:4.0%}")
    print()


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """Show a bar on standard error for work of `total` steps; call what it gives with the steps just done.

    Without a `total` it says only that the work goes on. It shows itself after a second, goes when the work
    is done, and stays silent where standard error is no terminal, or DSE_QUIET is set.
    """
    console, begun = Console(stderr=True), monotonic()
    if not console.is_terminal or os.environ.get("DSE_QUIET"):
        yield lambda steps: None
        logging.getLogger("dse").info("%s took %.2f s", description, monotonic() - begun)
        return
    counted = (MofNCompleteColumn(), TimeRemainingColumn()) if total is not None else (TimeElapsedColumn(),)
    columns = (TextColumn("{task.description}"), BarColumn(), *counted)
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(description, total=total)
    after_a_second = Timer(1, bar.start)
    after_a_second.daemon = True
    after_a_second.start()
    try:
        yield lambda steps: bar.advance(task, steps)
    finally:
        after_a_second.cancel()
        after_a_second.join()
        if bar.live.is_started:
            bar.stop()
        logging.getLogger("dse").info("%s took %.2f s", description, monotonic() - begun)


def _cell(x: Any) -> Any:
    """Return a value as CSV has it: lists apart by spaces."""
    return " ".join(str(value) for value in x) if isinstance(x, list) else x
