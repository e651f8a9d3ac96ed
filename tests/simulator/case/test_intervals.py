"""Intervals of a warp: by hand, against the simulator, and into GPUMech."""

import numpy as np
import pytest
from oracle import EXAMPLE

from dse.simulator import Case, Loop, Program, simulate
from dse.simulator.case.intervals import intervals


def test_by_hand():
    # C at 0 and 1, done at 5; M at 5, done at 11; C at 11 and 15; M at 19, done at 25
    insts, stalls = intervals(EXAMPLE)
    assert insts.tolist() == [2, 1, 1, 1, 1]
    assert stalls.tolist() == [3, 5, 3, 3, 5]
    assert (insts + stalls).sum() == 25  # Λ_app, Sec. 2.2


def test_is_what_the_simulator_says_of_one_warp():
    random = np.random.default_rng(5)
    programs, limits, drained = [], [], []
    for _ in range(60):
        n = int(random.integers(1, 12))
        limit = float(random.choice([0.5, 1.0, 2.0]))
        preds = tuple(tuple(np.flatnonzero(random.random(i) < 0.3).tolist()) for i in range(n))
        programs.append(
            Program(
                subsystem=random.integers(0, 3, n),
                throughput_cycles=random.random(n) / limit,  # a pipe is free again at the next slot
                latency_cycles=random.integers(0, 50, n).astype(float),
                preds=preds,
                kind="".join(random.choice(list("cmb"), n)),
                same_warp=random.integers(0, 8, n) * random.integers(0, 2, n).astype(float),
                loops=(Loop(0, n, 3),) if random.random() < 0.5 else (),
            )
        )
        limits.append(limit)
    cases = [Case((program,), 1, issue_limit=limit) for program, limit in zip(programs, limits, strict=True)]
    makespans = simulate(cases).makespan
    for program, limit, expected in zip(programs, limits, makespans, strict=True):
        insts, stalls = intervals(program, limit)
        assert insts.sum() == program.entries
        assert (stalls[:-1] > 0).all()
        total = insts.sum() / limit + stalls.sum()
        if stalls[-1] > 0:
            assert total == pytest.approx(expected, rel=1e-12)
        else:  # the last instruction's slot ends after all results
            assert expected <= total <= expected + 1 / limit
        drained.append(stalls[-1] > 0)
    assert 0 < sum(drained) < len(drained)
