"""Errors of TEG with other choices where its paper leaves them open: `teg_choices.py [--page FILE] [--json]`.

`--page` fills the section `TEG choices` of a page.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from ending import run_script

from dse.accuracy import markdown
from dse.accuracy.teg import TABLES, PaperTable
from dse.core.files import fill
from dse.report.numbers import json_text
from dse.simulator import simulate, teg
from dse.simulator.case import trace_text


def in_source_order(trace: str) -> str:
    """Move the arithmetic of the matrix multiplication's loop behind its last barrier."""
    lines = trace.splitlines()
    own = [line for line in lines if "IADD32I" in line or "ISET" in line]
    rest = [line for line in lines if line not in own]
    branch = next(index for index, line in enumerate(rest) if "BRA" in line)
    return "\n".join([*rest[:branch], *own, *rest[branch:]])


def swapped(trace: str) -> str:
    """Make the matrix multiplication move B's elements to registers, and read A's as operands."""
    return (
        trace.replace("stride=0", "stride=?")
        .replace("stride=64", "stride=0")
        .replace("stride=?", "stride=64")
    )


def two_rows(trace: str) -> str:
    """Leave out the loads of a link's third row from the lattice kernel."""
    lines = trace.splitlines()
    return "\n".join(line for line in lines if "GLD.U128 R46" not in line and "GLD.U128 R50" not in line)


def two_more_integers(trace: str) -> str:
    """Add two integer instructions to each trip of the loop."""
    return trace.replace("    BRA", "    IADD R20, R20, R20;\n    IADD R21, R21, R21;\n    BRA")


def only_the_loop(trace: str) -> str:
    """Leave out the instructions before the loop."""
    return trace[trace.index(".repeat") :]


def timed(**changed: float) -> teg.TegMachine:
    """Return a GT200 with other execution latencies, by kind."""
    timings = dict(teg.GT200.timings)
    for kind, cycles in changed.items():
        timings[kind] = replace(timings[kind], execution=cycles)
    return replace(teg.GT200, timings=timings)


@dataclass(frozen=True)
class Choice:
    """A different choice."""

    label: str
    kernel: str = ""  # prefix of the name of the kernel whose trace is edited
    edit: Callable[[str], str] = str
    machine: teg.TegMachine = teg.GT200
    without: tuple[str, ...] = ()  # effects
    scheduler: str = "rr"


def tiles(number: int) -> Choice:
    """Run another number of trips."""
    return Choice(f"{number} tiles", "matmul", lambda t: t.replace(".repeat 10", f".repeat {number}"))


CHOICES = (
    Choice("as chosen"),
    *map(tiles, (8, 9, 11, 12)),
    Choice("the loop's arithmetic after its last barrier", "matmul", in_source_order),
    Choice("conflicts in the move, not in the multiply-add", "matmul", swapped),
    Choice("two more integer instructions a tile", "matmul", two_more_integers),
    Choice("no instructions before the loop", "matmul", only_the_loop),
    Choice("a link in 3 loads (two rows), not in 5", "hopping_aos", two_rows),
    Choice("a warp is not held by an access served piece by piece", without=("held",)),
    Choice("no limit in flight", without=("in_flight",)),
    Choice("no same-warp issue latency, so that nothing is held", without=("same_warp",)),
    Choice("an issue slot every cycle", machine=replace(teg.GT200, issue_interval=1.0)),
    Choice("greedy, then oldest", scheduler="gto"),
    Choice("oldest first", scheduler="oldest"),
    Choice("a barrier takes 40 cycles, not 24", machine=timed(barrier=40.0)),
    Choice("global memory takes 436 cycles, not 440", machine=timed(load=436.0, store=436.0)),
    Choice("global memory takes 443 cycles", machine=timed(load=443.0, store=443.0)),
    Choice("a move from shared memory takes 74, not 38", machine=replace(teg.GT200, shared_latency=74.0)),
    Choice("118.6 GB/s (84 %), not 141.7", machine=replace(teg.GT200, bandwidth=118.6e9)),
)


def errors(
    choices: Sequence[Choice] = CHOICES, tables: Sequence[PaperTable] = TABLES
) -> list[dict[str, Any]]:
    """Compute TEG's mean errors in percent: a row for each other choice, a column for each table.

    A table whose kernel a choice does not concern is None.
    """
    asked = [
        (choice, table) for choice in choices for table in tables if table.kernel.startswith(choice.kernel)
    ]
    paper = {table.number: table.printed() for table in tables}
    cases = []
    for choice, table in asked:
        trace = trace_text.parse(choice.edit(table.trace()))
        off = {name: False for name in (*choice.without, table.without) if name}
        warps = paper[table.number]["warps"].astype(int).tolist()
        how = choice.machine, teg.Effects(**off), choice.scheduler
        cases += [teg.case(trace, count, *how) for count in warps]
    makespan = iter(simulate(cases).makespan)
    rows: dict[str, dict[str, Any]] = {
        choice.label: {"choice": choice.label} | {f"Table {table.number}": None for table in tables}
        for choice in choices
    }
    for choice, table in asked:
        off_by = [abs(next(makespan) / cycles - 1.0) for cycles in paper[table.number]["measured_cycles"]]
        rows[choice.label][f"Table {table.number}"] = float(100.0 * np.mean(off_by))
    return list(rows.values())


def page(rows: Sequence[dict[str, Any]]) -> str:
    """Write the rows in Markdown."""
    columns = list(rows[0])
    return markdown.table(columns, [[_text(row[name]) for name in columns] for row in rows])


def _text(value: str | float | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print or write the errors. **Raises:** DseError for a page without the section."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", type=Path, metavar="FILE", help="fill its section instead of printing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = errors()
    if options.page:
        fill(options.page, "TEG choices", page(rows))
    else:
        print(json_text({"rows": rows}) if options.json else page(rows))


if __name__ == "__main__":
    run_script(main)
