"""Entries a second of the simulator on one core: `bench_simulate.py [--json] [--quick]`.

Batches as in the design notes: instructions of two subsystems (one in six enters the slow one), each with up
to two predecessors among the eight before it; `all on` has four subsystems, an issue limit, a limit in
flight, a same-warp interval, barriers, and two rounds of two groups. The tables are made and the loop is
compiled beforehand; each rate is the best of some runs. By CPU time and by the clock on the wall.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

CORE = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORE})  # before JAX starts its threads

import numpy as np  # noqa: E402

from dse.simulate import Case, Program, simulate  # noqa: E402
from dse.simulate.engine import run  # noqa: E402
from dse.simulate.simulation import batches  # noqa: E402

BACK = 8  # how far predecessors lie back


def program(rng: np.random.Generator, n: int, everything: bool) -> Program:
    subsystems = 4 if everything else 2
    lam = np.array([*rng.integers(1, 9, 1) / 4, *rng.integers(2, 25, 1) / 2, *rng.integers(1, 9, 2) / 4])
    Lam = np.array([*rng.integers(4, 25, 1), *rng.integers(100, 501, 1), *rng.integers(4, 41, 2)])
    odds = [1 / 2, 1 / 6, 1 / 6, 1 / 6] if everything else [5 / 6, 1 / 6]
    s = rng.choice(subsystems, n, p=odds)
    preds = tuple(
        tuple(i - int(d) for d in set(rng.integers(1, min(i, BACK) + 1, rng.integers(0, 3)))) if i else ()
        for i in range(n)
    )
    kind = "".join("b" if everything and i % 24 == 23 else "c" for i in range(n))
    return Program(s, lam[s], Lam[s].astype(float), preds, kind, np.full(n, 0.5 * everything))


def cases(
    count: int, lengths: tuple[int, int], warps: tuple[int, int], everything: bool = False, **options: Any
) -> list[Case]:
    rng = np.random.default_rng(3)
    made = []
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
        made.append(Case((program(rng, n, everything),), w, **options))
    return made


def measure(made: list[Case], repeats: int) -> dict[str, float]:
    """Rates of a batch whose tables are ready."""
    entries = np.array([case.entries for case in made])
    started = time.process_time()
    ready = list(batches(made, np.arange(len(made)), entries, ticks=True, record=False))
    prepared = time.process_time() - started
    started = time.process_time()
    ends = np.concatenate([run(batch)[0] for batch in ready])
    compiled = time.process_time() - started
    if np.isnan(ends).any():
        raise SystemExit("bench: found cases that need float64, expected ticks")
    best_cpu = best_wall = math.inf
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        for batch in ready:
            run(batch)
        best_cpu = min(best_cpu, time.process_time() - cpu)
        best_wall = min(best_wall, time.perf_counter() - wall)
    total = int(entries.sum())
    return {
        "entries": total,
        "entries_per_s": total / best_cpu,
        "entries_per_wall_s": total / best_wall,
        "simulations_per_s": len(made) / best_cpu,
        "tables_s": prepared,
        "first_run_s": compiled,
    }


MIXED = ((32, 128), (1, 32))
BATCHES: dict[str, Callable[[int], list[Case]]] = {
    "uniform_1024": lambda part: cases(1024 // part, (64, 64), (16, 16)),
    "mixed_1024": lambda part: cases(1024 // part, *MIXED),
    "mixed_8192": lambda part: cases(8192 // part, *MIXED),
    "all_on": lambda part: cases(1024 // part, *MIXED, everything=True),
    "dataflow": lambda part: cases(1024 // part, *MIXED, order="dataflow"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="an eighth of each batch, one run")
    arguments = parser.parse_args()
    part, repeats = (8, 1) if arguments.quick else (1, 5)
    simulate(cases(1, (2, 2), (1, 1)))  # JAX itself
    found: dict[str, Any] = {"core": CORE, "cpu": cpu_name(), "quick": arguments.quick, "batches": {}}
    for name, make in BATCHES.items():
        rates = measure(make(part), repeats)
        found["batches"][name] = rates
        found[f"{name}_entries_per_s"] = rates["entries_per_s"]
        if not arguments.json:
            rate, wall = (rates[key] / 1e6 for key in ("entries_per_s", "entries_per_wall_s"))
            print(
                f"{name:13} {rate:6.1f} M entries/s ({wall:.1f} on the wall),"
                f" {rates['simulations_per_s']:8,.0f} simulations/s,"
                f" tables {rates['tables_s']:.2f} s, first run {rates['first_run_s']:.1f} s"
            )
    found["simulations_per_s"] = found["batches"]["mixed_8192"]["simulations_per_s"]
    print(json.dumps(found) if arguments.json else f"one core of {found['cpu']}")
    return 0


def cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
