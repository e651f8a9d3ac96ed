"""Entries a second of the simulator on one core: `bench_simulate.py [--json] [--quick] [--memory CASES]`.

Batches as in the design notes: instructions of two subsystems (one in six enters the slow one), each with up
to two predecessors among the eight before it; `all on` has four subsystems, an issue limit, a limit in
flight, a same-warp interval, barriers, and two rounds of two groups; loops have 8 to 24 instructions, 1,000
trips, and 4 or 16 warps, with steady states skipped (an entry counts whether it was skipped or not) and not.
A gradient is compared with the plain simulation of the same cases, whose terms are real numbers. The tables
are made and the loop is compiled beforehand; each rate is the best of some runs. By CPU time and by the clock
on the wall. With `--memory`, only so many mixed cases in one call, and the largest resident size of the
process.
"""

import argparse
import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

CORE = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORE})  # before JAX starts its threads

import numpy as np  # noqa: E402

from dse.simulator import Case, Loop, Program, Terms, makespans, simulate  # noqa: E402
from dse.simulator.engine.loop import run  # noqa: E402
from dse.simulator.simulation import batches  # noqa: E402

BACK = 8  # how far predecessors lie back


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


def loops(count: int, warps: int, scheduler: str) -> list[Case]:
    """Loops of 1,000 trips, with dependences from one iteration to the next."""
    rng = np.random.default_rng(11)
    made = []
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
        made.append(Case((body,), warps, issue_limit=limit, scheduler=scheduler))
    return made


def measure(made: list[Case], repeats: int, steady: bool = True) -> dict[str, float]:
    """Rates of a batch whose tables are ready."""
    entries = np.array([case.entries for case in made])
    started = time.process_time()
    ready = list(batches(made, np.arange(len(made)), entries, ticks=True, record=False, steady=steady))
    prepared = time.process_time() - started
    started = time.process_time()
    found = [run(batch) for batch in ready]
    ends, skipped = (np.concatenate([each[i] for each in found]) for i in (0, 1))
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
        "skipped": float(skipped.sum() / total),
        "entries_per_s": total / best_cpu,
        "entries_per_wall_s": total / best_wall,
        "simulations_per_s": len(made) / best_cpu,
        "tables_s": prepared,
        "first_run_s": compiled,
    }


def gradient(made: list[Case], repeats: int) -> dict[str, float]:
    """CPU seconds of a simulation, and of one with its gradient."""
    import jax

    def best(run: Callable[[], Any]) -> float:
        jax.block_until_ready(run())
        seconds = math.inf
        for _ in range(repeats):
            started = time.process_time()
            jax.block_until_ready(run())
            seconds = min(seconds, time.process_time() - started)
        return seconds

    with jax.enable_x64(True):
        terms, function = Terms.of(made), makespans(made)
        with_gradient = jax.value_and_grad(lambda terms: function(terms).sum())
        plain, both = best(lambda: simulate(made).makespan), best(lambda: with_gradient(terms))
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
    """The same at a third of its cycles."""
    cycles = {name: getattr(program, name) / 3 for name in ("throughput_cycles", "latency_cycles")}
    return replace(program, **cycles)


def rugged(made: list[Case]) -> list[Case]:
    """The same with terms that are no ticks."""
    return [replace(case, programs=tuple(thirds(program) for program in case.programs)) for case in made]


def memory(count: int) -> dict[str, Any]:
    """Simulate so many mixed cases in one call: its time, and the largest resident size before and after."""
    made = cases(count, *MIXED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = time.perf_counter()
    entries = int(simulate(made).entries.sum())
    return {
        "cases": count,
        "entries": entries,
        "seconds": time.perf_counter() - started,
        "cases_bytes": before,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quick", action="store_true", help="an eighth of each batch, one run")
    parser.add_argument("--memory", type=int, metavar="CASES", help="only the memory of so many cases")
    arguments = parser.parse_args()
    if arguments.memory:
        sizes = memory(arguments.memory)
        text = (
            "{cases:,} cases, {entries:,} entries in {seconds:.1f} s: at most {peak_bytes:,} bytes, "
            "{cases_bytes:,} of them before the simulation"
        )
        print(json.dumps(sizes) if arguments.json else text.format(**sizes))
        return 0
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
    for name, (warps, scheduler) in LOOPS.items():
        made = loops(512 // part, warps, scheduler)
        rates = [measure(made, min(repeats, 2), steady) for steady in (True, False)]
        found["batches"][name] = dict(zip(("skipping", "not_skipping"), rates, strict=True))
        found[f"{name}_entries_per_s"] = rates[0]["entries_per_s"]
        if not arguments.json:
            with_, without = (r["entries_per_s"] / 1e6 for r in rates)
            share = rates[0]["skipped"]
            print(f"{name:13} {with_:6.1f} M entries/s, {share:.0%} skipped; {without:.1f} without skipping")
    found["gradient"] = gradient(rugged(cases(1024 // part, *MIXED)), repeats)
    if not arguments.json:
        print("gradient      takes {times:.2f} times the plain simulation".format(**found["gradient"]))
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
