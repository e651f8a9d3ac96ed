"""Entries a second of the simulator on one core, optionally compared with another simulator.

    python scripts/bench/simulate.py [--quick] [--json] [--only NAME,...] [--beside COMMAND] [--threads 2]
    python scripts/bench/simulate.py --export FOLDER [--only NAME,...] | --memory CASES

Batches: instructions of two subsystems (one in six enters the slow one), each with up to two predecessors
among the eight before it; `all on` has four subsystems, an issue limit, a limit in flight, a same-warp
interval, barriers, and two rounds of two groups; loops have 8 to 24 instructions, 1,000 trips, and 4 or 16
warps, with and without skipping of steady states (skipped entries count). A gradient is compared with the
plain simulation of the same cases, whose terms are real numbers. Tables are made and the loop is compiled
beforehand; each rate is the best of several rounds, by CPU time and by wall time. `whole` is the rate of a
complete call of `simulate`, from cases to makespans.

`--export` writes the straight batches as JSON, each in a file of cases with their makespans, in the form that
scripts/validate/check_vectors.py reads (it has no loops). `--beside "PROGRAM {file} ..."` runs another
simulator on each of these files, in turn with this one and on the same core; it prints `best X`, X million
entries a second of CPU time. `--threads` divides a batch among threads, each on its own core; its time is the
CPU time of the busiest thread. `--memory` only simulates mixed cases in one call and prints the largest
resident size of the process.
"""

import argparse
import json
import math
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import front

CORES = front.usable_cores()
CORE = front.pin()  # before JAX starts its threads

import numpy as np

from dse.simulator import Case, Loop, Program, Terms, makespans, simulate
from dse.simulator.engine.batches import batches
from dse.simulator.engine.columns import CaseColumns
from dse.simulator.engine.driver import never, run
from dse.simulator.engine.graph import Graph, make_graph
from dse.simulator.engine.inputs import make_inputs
from dse.simulator.engine.layout import Inputs

BACK = 8  # largest distance of predecessors


def program(rng: np.random.Generator, n: int, everything: bool) -> Program:
    subsystems = 4 if everything else 2
    throughput_cycles = np.array(
        [*rng.integers(1, 9, 1) / 4, *rng.integers(2, 25, 1) / 2, *rng.integers(1, 9, 2) / 4]
    )
    latency_cycles = np.array([*rng.integers(4, 25, 1), *rng.integers(100, 501, 1), *rng.integers(4, 41, 2)])
    odds = [1 / 2, 1 / 6, 1 / 6, 1 / 6] if everything else [5 / 6, 1 / 6]
    s = rng.choice(subsystems, n, p=odds)
    preds = tuple(
        tuple(i - int(d) for d in set(rng.integers(1, min(i, BACK) + 1, rng.integers(0, 3)))) if i else ()
        for i in range(n)
    )
    kind = "".join("b" if everything and i % 24 == 23 else "c" for i in range(n))
    return Program(
        s, throughput_cycles[s], latency_cycles[s].astype(float), preds, kind, np.full(n, 0.5 * everything)
    )


def cases(
    count: int, lengths: tuple[int, int], warps: tuple[int, int], everything: bool = False, **options: Any
) -> list[Case]:
    rng = np.random.default_rng(3)
    batch = []
    for _ in range(count):
        n, w = (int(rng.integers(low, high + 1)) for low, high in (lengths, warps))
        if everything:
            options |= {
                "slots": 2,
                "groups": 4,
                "issue_limit": float(rng.choice([1, 2, 4])),
                "caps": (math.inf, float(rng.choice([8, 16]))),
            }
            w = max(1, w // 2)
        batch.append(Case((program(rng, n, everything),), w, **options))
    return batch


def loops(count: int, warps: int, scheduler: str) -> list[Case]:
    """Make loops of 1,000 trips, with dependences between iterations."""
    rng = np.random.default_rng(11)
    batch = []
    for _ in range(count):
        n = int(rng.integers(8, 25))
        s = (rng.random(n) < 1 / 6).astype(int)
        throughput_cycles = rng.integers(1, 9, 2) / 4
        latency_cycles = np.array([rng.integers(16, 97), rng.integers(400, 2001)]) / 4
        reach = min(BACK, n)
        preds = tuple(
            tuple({(i - int(d)) % n for d in rng.integers(1, reach + 1, rng.integers(0, 3))})
            for i in range(n)
        )
        body = Program(s, throughput_cycles[s], latency_cycles[s], preds, loops=(Loop(0, n, TRIPS),))
        limit = float(rng.choice([1, 2, math.inf]))
        batch.append(Case((body,), warps, issue_limit=limit, scheduler=scheduler))
    return batch


Batch = tuple[Inputs, Graph | None]


def prepared(cases: Sequence[Case], steady: bool = True) -> list[Batch]:
    columns = CaseColumns.of(cases)
    ready = []
    for numbers in batches(columns, np.arange(len(cases)), record=False):
        inputs = make_inputs(columns, numbers, ticks=True, steady=steady)[0]
        ready.append((inputs, make_graph(columns, numbers) if columns.dataflow[numbers[0]] else None))
    return ready


def best(run: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Return the least CPU time and the least wall time of runs, repeated for `seconds`."""
    cpu = wall = math.inf
    started = time.perf_counter()
    while True:
        cpu_0, wall_0 = time.process_time(), time.perf_counter()
        run()
        cpu, wall = min(cpu, time.process_time() - cpu_0), min(wall, time.perf_counter() - wall_0)
        if time.perf_counter() - started > seconds:
            return cpu, wall


def measure(
    cases: list[Case],
    rounds: int,
    seconds: float,
    steady: bool = True,
    other: Callable[[], float] | None = None,
) -> dict[str, float]:
    """Measure rates of a prepared batch, of a complete call of `simulate`, and of an `other` program."""
    first_tables, ready = front.timed(lambda: prepared(cases, steady))
    compiled, results = front.timed(lambda: [run(*batch) for batch in ready])
    ends, skipped = (np.concatenate([result[i] for result in results]) for i in (0, 1))
    if (ends == never(ready[0][0])).any():
        raise SystemExit("bench: found cases that need float64, expected ticks")
    cpu = wall = tables = complete = math.inf
    others = 0.0
    for _ in range(rounds):
        results = best(lambda: [run(*batch) for batch in ready], seconds)
        cpu, wall = min(cpu, results[0]), min(wall, results[1])
        tables = min(tables, best(lambda: prepared(cases, steady), seconds / 2)[0])
        complete = min(complete, best(lambda: simulate(cases, steady=steady), seconds / 2)[0])
        others = max(others, other() if other else 0.0)
    total = sum(case.entries for case in cases)
    rates = {
        "entries": total,
        "skipped": float(skipped.sum() / total),
        "entries_per_s": total / cpu,
        "entries_per_wall_s": total / wall,
        "whole_entries_per_s": total / complete,
        "simulations_per_s": len(cases) / cpu,
        "tables_s": tables,
        "first_tables_s": first_tables,
        "first_run_s": compiled,
    }
    if other:
        rates |= {"beside_entries_per_s": others, "times_beside": rates["entries_per_s"] / others}
        rates["whole_times_beside"] = rates["whole_entries_per_s"] / others
    return rates


def in_threads(cases: list[Case], count: int, rounds: int) -> float:
    """Measure entries a second in `count` threads, each on its core with its share of the cases."""
    parts = [prepared(cases[n::count]) for n in range(count)]

    def part(n: int) -> float:
        front.pin(CORES[n % len(CORES)])  # of this thread
        started = time.thread_time()
        for batch in parts[n]:
            run(*batch)
        return time.thread_time() - started

    with ThreadPoolExecutor(count) as pool:
        slowest = min(max(pool.map(part, range(count))) for _ in range(5 * rounds))
    return sum(case.entries for case in cases) / slowest


def other(command: str, file: Path) -> Callable[[], float]:
    """Return a function that runs another simulator on a file and returns its entries a second."""

    def rate() -> float:
        words = [word.replace("{file}", str(file)) for word in shlex.split(command)]
        output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        match = re.search(r"best\s+([\d.]+)", output)
        if not match:
            raise SystemExit(f"bench: {command}: found {output[:200]!r}, expected 'best NUMBER'")
        return float(match.group(1)) * 1e6

    return rate


def written(case: Case, makespan: float) -> dict[str, Any]:
    """Return a case in its JSON form."""
    return {
        "S": case.subsystems,
        "cap": [None if math.isinf(cap) else int(cap) for cap in caps_of(case)],
        "IL": None if math.isinf(case.issue_limit) else case.issue_limit,
        "W": case.warps,
        "g": case.slots,
        "G": case.groups,
        "prog": list(case.assignment),
        "order": case.order,
        "scheduler": case.scheduler,
        "programs": [
            {
                "s": p.subsystem.tolist(),
                "lam": p.throughput_cycles.tolist(),
                "Lam": p.latency_cycles.tolist(),
                "self": p.same_warp.tolist(),
                "dep": [list(js) for js in p.preds],
                "kind": p.kind,
            }
            for p in case.programs
        ],
        "expect": {"makespan": makespan, "entries": case.entries},
    }


def caps_of(case: Case) -> list[float]:
    return [*case.caps, *[math.inf] * case.subsystems][: case.subsystems]


def export(cases: list[Case], file: Path) -> None:
    """Write cases with their makespans."""
    makespans = simulate(cases).makespan.tolist()
    records = [{"id": n} | written(*pair) for n, pair in enumerate(zip(cases, makespans, strict=True))]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"format": "pipeline-vectors 1", "cases": records}))


def gradient(cases: list[Case], repeats: int) -> dict[str, float]:
    """Measure CPU seconds of a simulation without and with its gradient."""
    import jax

    def seconds_of(run: Callable[[], Any]) -> float:
        jax.block_until_ready(run())  # compiles
        return min(best(lambda: jax.block_until_ready(run()), 0)[0] for _ in range(repeats))

    with jax.enable_x64(True):
        terms, function = Terms.of(cases), makespans(cases)
        with_gradient = jax.value_and_grad(lambda terms: function(terms).sum())
        plain = seconds_of(lambda: simulate(cases).makespan)
        both = seconds_of(lambda: with_gradient(terms))
    return {"plain_s": plain, "with_gradient_s": both, "times": both / plain}


TRIPS = 1000
MIXED = ((32, 128), (1, 32))
BATCHES: dict[str, Callable[[int], list[Case]]] = {
    "uniform_1024": lambda part: cases(1024 // part, (64, 64), (16, 16)),
    "mixed_1024": lambda part: cases(1024 // part, *MIXED),
    "mixed_8192": lambda part: cases(8192 // part, *MIXED),
    "all_on": lambda part: cases(1024 // part, *MIXED, everything=True),
    "dataflow": lambda part: cases(1024 // part, *MIXED, order="dataflow"),
}


LOOPS = {f"loop_{s}_{w}": (w, s) for s in ("rr", "gto") for w in (4, 16)}


def thirds(program: Program) -> Program:
    """Divide a program's cycles by three."""
    cycles = {name: getattr(program, name) / 3 for name in ("throughput_cycles", "latency_cycles")}
    return replace(program, **cycles)


def rugged(cases: list[Case]) -> list[Case]:
    """Change terms so that they are no ticks."""
    return [replace(case, programs=tuple(thirds(program) for program in case.programs)) for case in cases]


def memory(count: int) -> dict[str, Any]:
    """Simulate `count` mixed cases in one call: its time, and the peak memory before and after."""
    batch = cases(count, *MIXED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.perf_counter()
    entries = int(simulate(batch).entries.sum())
    return {
        "cases": count,
        "entries": entries,
        "seconds": time.perf_counter() - started,
        "cases_bytes": before,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def parsed() -> argparse.Namespace:
    parser = front.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of each batch, one run")
    parser.add_argument("--only", metavar="NAMES", help=f"some of {','.join((*BATCHES, *LOOPS, 'gradient'))}")
    parser.add_argument("--rounds", type=int, default=5, help="the best one counts")
    parser.add_argument("--beside", metavar="COMMAND", help="another simulator, on {file}")
    parser.add_argument("--threads", type=int, help="also with this many threads")
    parser.add_argument("--export", metavar="FOLDER", type=Path, help="only write the batches as JSON")
    parser.add_argument("--memory", type=int, metavar="CASES", help="only the memory of this many cases")
    return parser.parse_args()


def main() -> int:
    arguments = parsed()
    selected = arguments.only.split(",") if arguments.only else [*BATCHES, *LOOPS, "gradient"]
    if arguments.memory:
        sizes = memory(arguments.memory)
        text = (
            "{cases:,} cases, {entries:,} entries in {seconds:.1f} s: at most {peak_bytes:,} bytes, "
            "{cases_bytes:,} of them before the simulation"
        )
        print(json.dumps(sizes) if arguments.json else text.format(**sizes))
        return 0
    part, rounds, seconds = (8, 1, 0.0) if arguments.quick else (1, arguments.rounds, 0.5)
    if arguments.export:
        for name in BATCHES.keys() & selected:
            export(BATCHES[name](part), arguments.export / f"{name}.json")
        return 0
    simulate(cases(1, (2, 2), (1, 1)))  # JAX itself
    report: dict[str, Any] = {
        "core": CORE,
        "cpu": front.machine()["cpu"],
        "quick": arguments.quick,
        "batches": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for name in BATCHES:
            if name not in selected:
                continue
            batch, beside = BATCHES[name](part), None
            if arguments.beside:
                export(batch, file := Path(folder, f"{name}.json"))
                beside = other(arguments.beside, file)
            rates = measure(batch, rounds, seconds, other=beside)
            if arguments.threads:
                rates["threads_entries_per_s"] = in_threads(batch, arguments.threads, rounds)
                rates["times_one_thread"] = rates["threads_entries_per_s"] / rates["entries_per_s"]
            report["batches"][name] = rates
            report[f"{name}_entries_per_s"] = rates["entries_per_s"]
            if not arguments.json:
                print(line(name, rates), flush=True)
    for name, (warps, scheduler) in LOOPS.items():
        if name not in selected:
            continue
        batch = loops(512 // part, warps, scheduler)
        rates = [measure(batch, min(rounds, 2), seconds, steady) for steady in (True, False)]
        report["batches"][name] = dict(zip(("skipping", "not_skipping"), rates, strict=True))
        report[f"{name}_entries_per_s"] = rates[0]["entries_per_s"]
        if not arguments.json:
            with_, without = (r["entries_per_s"] / 1e6 for r in rates)
            share = rates[0]["skipped"]
            print(f"{name:13} {with_:6.1f} M entries/s, {share:.0%} skipped; {without:.1f} without skipping")
    if "gradient" in selected:
        report["gradient"] = gradient(rugged(cases(1024 // part, *MIXED)), rounds)
        if not arguments.json:
            print("gradient      takes {times:.2f} times the plain simulation".format(**report["gradient"]))
    print(json.dumps(report) if arguments.json else f"one core of {report['cpu']}")
    return 0


def line(name: str, rates: dict[str, float]) -> str:
    """Format a batch's rates as a line of the table."""
    rate, wall, complete = (
        rates[key] / 1e6 for key in ("entries_per_s", "entries_per_wall_s", "whole_entries_per_s")
    )
    text = (
        f"{name:13} {rate:6.1f} M entries/s ({wall:.1f} on the wall),"
        f" {rates['simulations_per_s']:8,.0f} simulations/s, whole {complete:5.1f},"
        f" tables {rates['tables_s'] * 1e3:.0f} ms, first {rates['first_tables_s']:.2f} s,"
        f" first run {rates['first_run_s']:.1f} s"
    )
    if "times_beside" in rates:
        text += (
            f"; {rates['times_beside']:.2f} times the other's {rates['beside_entries_per_s'] / 1e6:.1f},"
            f" whole {rates['whole_times_beside']:.2f}"
        )
    if "times_one_thread" in rates:
        text += f"; threads {rates['times_one_thread']:.2f} times one"
    return text


if __name__ == "__main__":
    sys.exit(main())
