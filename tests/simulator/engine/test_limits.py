"""Cases around each internal limit of the engine, against plain NumPy."""

from itertools import product

import numpy as np
import pytest

from dse.simulator import Case, Program, simulate
from dse.simulator.case.program import MOST_INSTRUCTIONS, MOST_SUBSYSTEMS

# Blocks of a row of instructions have 16; vectors of blocks 256; 64 is the lowest bit of a word without one.
LENGTHS = (1, 15, 16, 17, 63, 65, 255, 256, 257, 1023, 1024, 1025, 1041, MOST_INSTRUCTIONS)
WARPS = (1, 15, 16, 17, 63, 64, 65, 128, 1024)


def dataflow(case: Case) -> float:
    """The makespan of one group without barriers and caps: each step looks at every instruction."""
    [program] = case.programs
    n, total = len(program), case.warps * len(program)
    ready = np.zeros((case.warps, n))
    missing = np.tile([len(preds) for preds in program.preds], (case.warps, 1))
    successors: list[list[int]] = [[] for _ in range(n)]
    for i, preds in enumerate(program.preds):
        for j in preds:
            successors[j].append(i)
    free, wake, left = np.zeros(MOST_SUBSYSTEMS), np.zeros(case.warps), np.ones((case.warps, n), bool)
    end, last = 0.0, -1
    for _ in range(total):
        may = np.where(left & (missing == 0), np.maximum(ready, free[program.subsystem]), np.inf)
        may = np.maximum(may, wake[:, None])
        first = may.min(1)
        now = first.min()
        turn = (np.arange(case.warps) - last - 1) % case.warps
        w = int(np.argmin(np.where(first <= now, turn, case.warps)))
        i = int(np.argmin(may[w]))
        done = now + program.latency_cycles[i]
        free[program.subsystem[i]] = now + program.throughput_cycles[i]
        wake[w], left[w, i], last, end = now + program.same_warp[i], False, w, max(end, done)
        for j in successors[i]:
            ready[w, j] = max(ready[w, j], done)
            missing[w, j] -= 1
    return end


def program(n: int, subsystems: int = 3, seed: int = 0) -> Program:
    """A program whose instructions wait for near and far ones."""
    rng = np.random.default_rng([n, subsystems, seed])
    near = [tuple({max(i - 1 - int(rng.integers(0, 40)), 0)}) if i % 3 else () for i in range(n)]
    far = [(int(rng.integers(0, i)),) if i and i % 7 == 0 else () for i in range(n)]
    return Program(
        np.arange(n) % subsystems,
        rng.integers(0, 4, n).astype(float),
        rng.integers(0, 30, n).astype(float),
        tuple(tuple(sorted({*a, *b})) for a, b in zip(near, far, strict=True)),
    )


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths_in_dataflow_order(n):
    case = Case((program(n),), 1, order="dataflow")
    recorded, ticks = simulate([case], critical=True), simulate([case])
    assert recorded.makespan[0] == ticks.makespan[0] == dataflow(case)
    assert recorded.critical is not None
    path = recorded.critical[0]
    terms = (path.throughput_cycles, path.latency_cycles, path.same_warp)
    own = (case.programs[0].throughput_cycles, case.programs[0].latency_cycles, case.programs[0].same_warp)
    assert sum(float(counts[0] @ cycles) for counts, cycles in zip(terms, own, strict=True)) == dataflow(case)


@pytest.mark.parametrize("warps", WARPS)
def test_warps_and_subsystems(warps):
    for subsystems in (1, 2, 3, 4, 5, MOST_SUBSYSTEMS) if warps < 1024 else (3,):
        case = Case((program(3, subsystems),), warps, order="dataflow")
        assert simulate([case], critical=True).makespan[0] == simulate([case]).makespan[0] == dataflow(case)


def test_numbers_of_cases():
    """Lanes that are empty, full, and filled again; each case gives what it gives alone."""
    every = [
        Case((program(n, s, n),), w, slots, 3 * slots, order=order, scheduler=scheduler)
        for n, s, w, slots in ((17, 2, 3, 2), (1041, 3, 1, 1), (5, 8, 16, 4), (40, 1, 33, 1))
        for order, scheduler in product(("program", "dataflow"), ("rr", "gto", "oldest"))
    ]
    alone = {path: [simulate([case], path).makespan[0] for case in every] for path in (True, False)}
    np.testing.assert_array_equal(alone[True], alone[False])
    for count, critical in product((1, 2, 3, 6, 7, 8, len(every)), (True, False)):
        np.testing.assert_array_equal(simulate(every[:count], critical).makespan, alone[critical][:count])
