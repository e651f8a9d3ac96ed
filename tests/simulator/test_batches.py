"""The simulator against a literal one in plain Python, and the worked values."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracle import EVERY, EXAMPLE, Oracle, random_case, random_program

from dse.errors import DseError
from dse.simulator import Case, Program, Simulation, simulate


def assert_equal(result: Simulation) -> None:
    """Every number of every case."""
    assert result.critical is not None
    for n, case in enumerate(result.cases):
        expected = Oracle(case)
        assert result.makespan[n] == expected.makespan
        assert result.entries[n] == expected.entries
        np.testing.assert_allclose(result.busy(n), expected.busy, rtol=1e-12)
        counts, path = expected.critical(), result.critical[n]
        assert [x.tolist() for x in path.throughput_cycles] == counts["lam"]
        assert [x.tolist() for x in path.latency_cycles] == counts["Lam"]
        assert [x.tolist() for x in path.same_warp] == counts["self"]
        assert path.valve == counts["valve"]


@pytest.mark.parametrize("order", ["program", "dataflow"])
@pytest.mark.parametrize(
    ("features", "grid"), [("", 64), (EVERY, 64), (EVERY, None)]
)  # None: no tick divides
def test_equals_plain_python(features: str, grid: Any, order: Any):
    rng = np.random.default_rng(len(features) + len(order))
    cases = [replace(random_case(rng, features, grid), order=order) for _ in range(40)]
    in_floats, without_paths = simulate(cases, critical=True), simulate(cases)
    assert (without_paths.in_ticks == (grid is not None)).all()
    np.testing.assert_array_equal(without_paths.makespan, in_floats.makespan)
    assert_equal(in_floats)


def test_long_programs_equal_plain_python_in_dataflow_order():
    # Rows of several blocks, some of them full, and of more than are looked at together; barriers in any of
    # them; instructions with many successors.
    rng = np.random.default_rng(6)
    cases = []
    for n, barriers in ((96, 0), (96, 7), (70, 3), (64, 1), (33, 2)):
        program = random_program(rng, n, 3, barriers, grid=64, same_warp=True)
        hub = replace(program, preds=tuple((0, *js) if i else () for i, js in enumerate(program.preds)))
        cases += [Case((p,), 2, 2, 3, order="dataflow", scheduler="gto") for p in (program, hub)]
    for barriers in (0, 2):
        cases.append(Case((random_program(rng, 300, 3, barriers),), 1, order="dataflow"))
    assert_equal(simulate(cases, critical=True))


UNEQUAL = replace(EXAMPLE, kind="ccbccm")
WORKED = {  # cycles by warps, the specification's table
    "rr": (25, 28, 32, 35, 38, 41, 44, 58, 108, 208),
    "gto": (25, 27, 30, 32, 34, 36, 40, 61, 101, 176),
    "oldest": (25, 27, 30, 32, 34, 38, 50, 59, 95, 183),
}


def test_worked_values_and_a_makespan_beyond_the_range_of_ticks():
    warps = (1, 2, 3, 4, 5, 6, 7, 10, 20, 40)
    cases = [Case((EXAMPLE,), w, scheduler=s) for s in WORKED for w in warps]
    np.testing.assert_array_equal(simulate(cases).makespan, np.concatenate(list(WORKED.values())))
    assert simulate([]).makespan.shape == (0,)
    # Each term fits, the sum of latencies does not: found out on the way.
    one_by_one = ((), *((i,) for i in range(39)))
    case = Case((Program(np.zeros(40, int), np.ones(40), np.full(40, 2.0**24 + 1), one_by_one),), 3)
    result = simulate([case, Case((EXAMPLE,), 1)])
    assert result.in_ticks.tolist() == [False, True]
    assert result.makespan[0] == Oracle(case).makespan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"warps": 0}, "expected 1 to 1024 warps"),
        ({"groups": 0}, "groups: found 0, expected 1 or more"),
        ({"issue_limit": 0.0}, "issue limit: found 0.0"),
        ({"caps": (0.5,)}, "caps: found 0.5, expected an integer"),
        ({"assignment": (1,)}, r"assignment: found \[1\], expected 0 to 0"),
        ({"programs": (EXAMPLE, UNEQUAL), "warps": 2, "assignment": (0, 1)}, "0 and 1 barriers in group 0"),
        # Of the program
        ({"throughput_cycles": np.ones(1)}, "throughput_cycles: found 1 values, expected 6"),
        ({"latency_cycles": np.full(6, math.inf)}, "latency_cycles: found .* expected finite cycles"),
        ({"preds": ((), (), (0, 2), (), (), ())}, "preds of instruction 2"),
        ({"kind": "ccxccm"}, "kind: found 'x'"),
        ({"subsystem": np.array([0, 0, 8, 0, 0, 1])}, "subsystem: expected integers from 0 to 7"),
    ],
)
def test_a_wrong_case_or_program_is_named(changes: dict[str, Any], message: str):
    with pytest.raises(DseError, match=message):
        replace(EXAMPLE if changes.keys() <= vars(EXAMPLE).keys() else Case((EXAMPLE,), 1), **changes)
    Case((EXAMPLE, UNEQUAL), 2, groups=2, assignment=(0, 0, 1, 1))
