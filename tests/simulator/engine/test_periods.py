"""Steady states are skipped, and nobody could tell."""

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from oracle import rolled_program

from dse.simulator import Case, Loop, Program, simulate

TICK = 2.0**-22  # beyond the range of integer ticks, but exact in float64


def looping(rng: np.random.Generator, tick: float, several: bool = False) -> Case:
    """A case with a long loop, or with many groups."""
    programs = []
    while len(programs) < 1 + several:
        program = rolled_program(rng, tick=tick)
        if not program.loops or (programs and program.barriers):
            continue
        longer = int(rng.integers(len(program.loops)))
        trips = [int(rng.integers(20, 60)) if n == longer else x.trips for n, x in enumerate(program.loops)]
        loops = tuple(replace(loop, trips=t) for loop, t in zip(program.loops, trips, strict=True))
        if several:
            program = replace(program, kind="c" * len(program))
        programs.append(replace(program, loops=loops))
    slots = int(rng.integers(1, 3))
    return Case(
        tuple(programs),
        warps=int(rng.integers(1, 5)),
        slots=slots,
        groups=slots + int(rng.choice([0, 3, 40])),
        issue_limit=float(rng.choice([0.5, 1, math.inf])),
        caps=(float(rng.choice([2, 5, math.inf])),),
        scheduler=str(rng.choice(["rr", "gto", "oldest"])),
        assignment=(0, 1, 1) if several else (0,),
    )


def cases(seed: int, count: int, tick: float = 0.25) -> list[Case]:
    rng = np.random.default_rng(seed)
    made = (looping(rng, tick, several=n % 4 == 3) for n in range(10 * count))
    return list(islice((case for case in made if case.entries < 20_000), count))


@pytest.mark.parametrize("tick", [pytest.param(0.25, marks=pytest.mark.slow), TICK])
def test_skipping_changes_no_makespan(tick: float):
    made = cases(3, 40 if tick == TICK else 20, tick)
    skipping, plain = simulate(made), simulate(made, steady=False)
    np.testing.assert_array_equal(skipping.makespan, plain.makespan)
    assert skipping.in_ticks.all() == (tick == 0.25)
    assert not plain.skipped.any()
    assert np.mean(skipping.skipped > 0) > 0.7
    assert (skipping.skipped < skipping.entries).all()


def test_loops_equal_what_they_unroll_to():
    rng = np.random.default_rng(1)
    made = [
        Case((rolled_program(rng, 4),), int(rng.integers(1, 4)), issue_limit=float(rng.choice([1, math.inf])))
        for _ in range(60)
    ]
    made = [case for case in made if case.programs[0].entries < 300]
    unrolled = [replace(case, programs=(case.programs[0].unrolled(),)) for case in made]
    rolled, straight = simulate(made, critical=True), simulate(unrolled, critical=True)
    np.testing.assert_array_equal(rolled.makespan, straight.makespan)
    assert rolled.critical is not None
    assert straight.critical is not None
    for case, path, other in zip(made, rolled.critical, straight.critical, strict=True):
        program = case.programs[0]
        for name in ("throughput_cycles", "latency_cycles", "same_warp"):
            folded = np.bincount(program.order, getattr(other, name)[0], len(program))
            np.testing.assert_array_equal(getattr(path, name)[0], folded)
        assert path.valve == other.valve


def test_a_million_trips():
    # Two warps in turn: each waits Λ for itself.
    loop = Program(np.zeros(1, int), np.ones(1), np.full(1, 3.0), ((0,),), loops=(Loop(0, 1, 1_000_000),))
    result = simulate([Case((loop,), 2)])
    assert result.makespan[0] == 3_000_001
    assert result.skipped[0] > 1_990_000
    odd = replace(loop, throughput_cycles=np.full(1, 0.1), loops=(Loop(0, 1, 5000),))  # which no tick divides
    assert simulate([Case((odd,), 2)]).skipped[0] == 0
