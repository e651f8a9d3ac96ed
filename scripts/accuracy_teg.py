"""Accuracy of every model on the TEG paper's times: `accuracy_teg.py [--json] [-o docs/accuracy.md]`.

`accuracy_teg.py --sensitivity [-o docs/teg.md]` says how TEG's errors hang on what had to be chosen.

The times of Tables 2 to 5 come with the package; so do the kernels, reconstructed as docs/teg.md says: TEG
gets their traces, the other models descriptions with the traces' counts. Prints a table, or one JSON object,
or writes the section between the markers of the page.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dse import gpus, kernels
from dse.errors import DseError
from dse.evaluate.chunks import evaluate
from dse.files import fill
from dse.models import MODELS
from dse.precision import in_64_bits
from dse.reproduce import papers
from dse.simulator import simulate, teg
from dse.simulator.case import trace_text


@dataclass(frozen=True)
class Table:
    """One of the paper's, and how its kernel is meant."""

    number: int
    title: str
    kernel: str
    fixed: dict[str, int]  # parameters
    without: str = ""  # what TEG leaves out


TABLES = (
    Table(2, "matmul, bank conflicts", "matmul_abt", {"padding": 0}),
    Table(3, "matmul, none", "matmul_abt", {"padding": 1}, "conflicts"),
    Table(4, "lattice QCD, uncoalesced", "hopping_aos", {}),
    Table(5, "lattice QCD, coalesced", "hopping_soa", {}),
)


def rows(table: Table) -> dict[str, np.ndarray]:
    """Columns of the paper's table."""
    found = papers.table(f"teg_table_{table.number}")
    return {name: np.array([float(row[name]) for row in found]) for name in found[0]}


def predicted(table: Table, warps: np.ndarray) -> dict[str, np.ndarray]:
    """Cycles by every model."""
    description = kernels.load(table.kernel)
    gpu = gpus.stack([gpus.load("gtx-280", np.float64).gpu])
    parameters = {name: np.full(len(warps), value) for name, value in table.fixed.items()}
    parameters |= {"warps_per_sm": warps.astype(int)}
    parameters = {name: parameters[name] for name in description.space.names}
    result = evaluate(description, MODELS, gpu, parameters)
    cycles = {name: result.forecasts[name].cycles[0] for name in MODELS}
    effects = teg.Effects.without(table.without) if table.without else None
    return cycles | {
        "teg": teg.cycles(trace_text.parse(text(table)), warps.astype(int).tolist(), effects=effects)
    }


def text(table: Table) -> str:
    """The trace of a table's kernel."""
    return kernels.find(table.kernel).with_name(trace_text.FILE).read_text(encoding="utf-8")


def scored() -> list[dict[str, Any]]:
    """A row a table, warps and model."""
    found = []
    for table in TABLES:
        paper = rows(table)
        measured = paper["measured_cycles"]
        models = {"teg, as printed": paper["predicted_cycles"]} | predicted(table, paper["warps"])
        for model, cycles in models.items():
            for warps, cycle, real in zip(paper["warps"], cycles, measured, strict=True):
                found.append(
                    {
                        "table": table.number,
                        "model": model,
                        "warps": int(warps),
                        "measured_cycles": float(real),
                        "predicted_cycles": float(cycle),
                        "error_percent": 100.0 * float(cycle / real - 1.0),
                    }
                )
    return found


def markdown(found: list[dict[str, Any]]) -> str:
    """Mean errors, a line a model; then each cell of TEG's."""
    models = list(dict.fromkeys(row["model"] for row in found))
    heads = [f"Table {table.number}: {table.title}" for table in TABLES]
    lines = ["| model | " + " | ".join(heads) + " | all |", "| --- |" + " ---: |" * (len(heads) + 1)]
    for model in models:
        mine = [row for row in found if row["model"] == model]
        errors = [[abs(row["error_percent"]) for row in mine if row["table"] == t.number] for t in TABLES]
        cells = [f"{np.mean(each):.1f}" for each in [*errors, [x for each in errors for x in each]]]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    lines += ["", "Cycles by `teg`, cell by cell:", ""]
    lines += ["| table | warps | measured | predicted | error [%] |", "| ---: | ---: | ---: | ---: | ---: |"]
    for row in found:
        if row["model"] == "teg":
            cells = [row["table"], row["warps"], f"{row['measured_cycles']:,.0f}"]
            cells += [f"{row['predicted_cycles']:,.0f}", f"{row['error_percent']:+.1f}"]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def in_source_order(trace: str) -> str:
    """The matrix multiplication with the loop's own arithmetic after its last barrier."""
    lines = trace.splitlines()
    own = [line for line in lines if "IADD32I" in line or "ISET" in line]
    rest = [line for line in lines if line not in own]
    at = next(n for n, line in enumerate(rest) if "BRA" in line)
    return "\n".join([*rest[:at], *own, *rest[at:]])


def swapped(trace: str) -> str:
    """The matrix multiplication with B's elements moved to registers and A's multiplied where they are."""
    return (
        trace.replace("stride=0", "stride=?")
        .replace("stride=64", "stride=0")
        .replace("stride=?", "stride=64")
    )


def two_rows(trace: str) -> str:
    """The lattice kernel without the loads of a link's third row."""
    return "\n".join(x for x in trace.splitlines() if "GLD.U128 R46" not in x and "GLD.U128 R50" not in x)


def timed(**changed: float) -> teg.TegMachine:
    """GT200 with other execution latencies, by kind."""
    timings = dict(teg.GT200.timings)
    for kind, cycles in changed.items():
        timings[kind] = replace(timings[kind], execution=cycles)
    return replace(teg.GT200, timings=timings)


@dataclass(frozen=True)
class Choice:
    """What was chosen, chosen otherwise."""

    label: str
    kernel: str = ""  # whose trace is edited: the beginning of its name
    edit: Callable[[str], str] = str
    machine: teg.TegMachine = teg.GT200
    without: tuple[str, ...] = ()  # effects
    scheduler: str = "rr"


def tiles(number: int) -> Choice:
    """Another number of trips."""
    return Choice(f"{number} tiles", "matmul", lambda t: t.replace(".repeat 10", f".repeat {number}"))


CHOICES = (
    Choice("as chosen"),
    *map(tiles, (8, 9, 11, 12)),
    Choice("the loop's arithmetic after its last barrier", "matmul", in_source_order),
    Choice("conflicts in the move, not in the multiply-add", "matmul", swapped),
    Choice(
        "two more integer instructions a tile",
        "matmul",
        lambda t: t.replace("    BRA", "    IADD R20, R20, R20;\n    IADD R21, R21, R21;\n    BRA"),
    ),
    Choice("no instructions before the loop", "matmul", lambda t: t[t.index(".repeat") :]),
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


def sensitivity() -> str:
    """Mean errors of TEG with each choice made otherwise, as a table."""
    asked = [
        (choice, table) for choice in CHOICES for table in TABLES if table.kernel.startswith(choice.kernel)
    ]
    paper = {table.number: rows(table) for table in TABLES}
    cases = []
    for choice, table in asked:
        trace = trace_text.parse(choice.edit(text(table)))
        off = {name: False for name in (*choice.without, table.without) if name}
        warps = paper[table.number]["warps"].astype(int).tolist()
        how = choice.machine, teg.Effects(**off), choice.scheduler
        cases += [teg.case(trace, n, *how) for n in warps]
    makespan, errors = iter(simulate(cases).makespan), {}
    for choice, table in asked:
        each = [abs(next(makespan) / x - 1.0) for x in paper[table.number]["measured_cycles"]]
        errors[choice.label, table.number] = f"{100.0 * np.mean(each):.1f}"
    heads = [f"Table {table.number}" for table in TABLES]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    for choice in CHOICES:
        cells = [errors.get((choice.label, table.number), "") for table in TABLES]
        lines.append(f"| {choice.label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument(
        "--sensitivity", action="store_true", help="TEG's errors, had other choices been made"
    )
    parser.add_argument("-o", "--out", type=Path, help="a page with the two markers, to be filled")
    options = parser.parse_args()
    try:
        if options.sensitivity:
            found, shown, section = [], sensitivity(), "TEG choices"
        else:
            with in_64_bits():
                found = scored()
            shown, section = markdown(found), "TEG tables"
        if options.json:
            print(json.dumps({"rows": found}))
            return 0
        if options.out is None:
            print(shown)
            return 0
        fill(options.out, section, shown)
    except DseError as error:
        print(f"accuracy_teg.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
