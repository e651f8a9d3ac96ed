"""Print rows as a table, JSON or CSV, and progress bars."""

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

from dse.data.tables import harmless, rows_of
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

    `rows` is a list of rows, which may lack columns, or a mapping of columns. `units` are the units of
    columns missing in `dse.data.columns`; the table uses one prefix for a whole column, from its median, JSON
    and CSV print plain numbers. The table is divided where `section` changes. On a terminal it has the
    columns that fit, elsewhere all of them; `hidden` columns, such as those in the title, are omitted in
    both. A `wide` table has all columns everywhere. Control characters are escaped, and CSV cells that a
    spreadsheet would take for a formula begin with '.
    """
    if isinstance(rows, Mapping):
        columns = list(rows)
        rows = rows_of(rows)
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
    """Print shares, 0 to 1, as bars in per cent, except those below `least`."""
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
    """Show a progress bar on standard error; call the function it yields with the number of steps done.

    Without a `total` it only shows activity. It appears after a second and disappears at the end; it is not
    shown if standard error is no terminal, or DSE_QUIET is set.
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
    timer = Timer(1, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda steps: bar.advance(task, steps)
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()
        logging.getLogger("dse").info("%s took %.2f s", description, monotonic() - begun)


def _cell(x: Any) -> Any:
    """Return a value for CSV: lists are joined by spaces."""
    return " ".join(str(value) for value in x) if isinstance(x, list) else x
