"""Programs with loops: what runs, how often, and after what."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import rolled_program

from dse.errors import DseError
from dse.simulator import Loop, Program

NESTED = Program(
    subsystem=np.array([0, 1, 0, 0, 1, 0]),
    throughput_cycles=np.ones(6),
    latency_cycles=np.full(6, 4.0),
    preds=((), (0, 3), (1,), (2,), (3,), (4,)),
    kind="ccbccc",
    loops=(Loop(1, 4, 3), Loop(1, 5, 2)),
)


def test_nested_loops_run_trips_times():
    inner = [1, 2, 3] * 3
    assert NESTED.order.tolist() == [0, *inner, 4, *inner, 4, 5]
    assert NESTED.runs.tolist() == [1, 6, 6, 6, 2, 1]
    assert (NESTED.entries, NESTED.depth, NESTED.barriers, len(NESTED)) == (22, 2, 6, 6)
    assert NESTED.loops[0] == Loop(1, 5, 2)  # the outer one first
    unrolled = NESTED.unrolled()
    assert unrolled.preds[1] == (0,)  # instruction 1 in the first iteration: 3 has not run
    assert unrolled.preds[4] == (0, 3)  # in the second
    assert unrolled.preds[11] == (0, 9)  # after the outer loop came round: 3 ran at 9
    assert unrolled.preds[10] == (9,)  # 4 waits for the last iteration's 3
    assert not unrolled.loops
    assert unrolled.unrolled() is unrolled


@given(seed=st.integers(0, 2**32 - 1))
def test_runs_count_what_runs(seed: int):
    program = rolled_program(np.random.default_rng(seed), trips=3)
    order = program.order
    assert np.bincount(order, minlength=len(program)).tolist() == program.runs.tolist()
    assert len(order) == program.entries
    if program.entries < 1000:
        assert len(program.unrolled()) == program.entries
        assert program.unrolled().barriers == program.barriers


def test_a_long_loop_is_not_unrolled():
    with pytest.raises(DseError, match=r"loops: found 4,400,004 instructions .*, expected at most 4,095"):
        replace(NESTED, loops=(Loop(0, 6, 2), Loop(1, 5, 550_000))).unrolled()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loops": (Loop(3, 3, 2),)}, "loops: found Loop.first=3, stop=3, trips=2., expected"),
        ({"loops": (Loop(3, 7, 2),)}, "expected instructions of 0 to 5"),
        ({"loops": (Loop(1, 3, 0),)}, "trips=0"),
        ({"loops": (Loop(0, 3, 2), Loop(1, 5, 2))}, "expected one inside the other"),
        ({"loops": (Loop(1, 5, 2), Loop(1, 5, 3))}, "expected one inside the other"),
        ({"loops": tuple(Loop(0, n, 2) for n in (2, 3, 4, 5, 6))}, "found 5 nested"),
        ({"loops": (Loop(1, 5, 10**400),)}, r"found over 10\^15 instructions of a warp, expected at most"),
        ({"loops": (Loop(1, 5, 2**31),)}, r"found 8,589,934,594 instructions of a warp, expected at most"),
        ({"loops": (Loop(1, 3, 2),)}, r"preds of instruction 1: found \[0, 3\], expected earlier"),
    ],
)
def test_a_wrong_loop_is_named(changes: dict[str, Any], message: str):
    with pytest.raises(DseError, match=message):
        replace(NESTED, **changes)
