"""Every result that is awaited is still in its slot."""

from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dse.simulator import Program
from dse.simulator.engine.slots import allocate


@given(seed=st.integers(0, 2**32 - 1))
def test_a_slot_holds_the_latest_run_or_nothing(rolled_program: Callable[..., Program], seed: int):
    program = rolled_program(np.random.default_rng(seed), trips=3)
    slots, count = allocate(program)
    assert slots.min() >= 0
    assert slots.max() < count
    held: dict[int, tuple[int, int]] = {}  # slot → instruction and its run
    latest: dict[int, tuple[int, int]] = {}
    for run, i in enumerate(program.order.tolist()):
        for j in program.preds[i]:
            assert held.get(int(slots[j])) == latest.get(j)
        held[int(slots[i])] = latest[i] = (i, run)
