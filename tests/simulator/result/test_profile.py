"""A profile is what a literal simulation enters, entry by entry."""

from typing import Any

import numpy as np
import pytest

from dse.errors import DseError
from dse.simulator import Case, Loop, Program
from dse.simulator.result.profile import profile

EVERY = "valve cap same_warp barriers sequence several"
TWO = Program(np.array([0, 1]), np.ones(2), np.full(2, 4.0), ((), (0,)))


def test_equals_plain_python(oracle: Any, random_case: Any):
    case = random_case(np.random.default_rng(5), EVERY)
    found, expected = profile(case), oracle(case)
    log = expected.log
    assert found.time.tolist() == [e["t"] for e in log]
    assert found.done.tolist() == [e["done"] for e in log]
    assert found.accepts.tolist() == [e["t"] + e["lam"] for e in log]
    for name, key in (("warp", "w"), ("group", "group"), ("program", "program"), ("instruction", "i"),
                      ("subsystem", "s")):  # fmt: skip
        assert getattr(found, name).tolist() == [e[key] for e in log]
    assert found.waited_for.tolist() == [-1 if e["cause"] is None else e["cause"][0] for e in log]
    assert found.makespan == expected.makespan
    assert found.done[found.critical[-1]] == found.makespan
    assert found.waited_for[found.critical[0]] == -1
    assert found.waited_for[found.critical[1:]].tolist() == found.critical[:-1].tolist()


def test_names():
    found = profile(Case((TWO,), 1), ("computation", "memory"), (("a", "b"),))
    assert found.subsystems == ("computation", "memory")
    assert found.labels == (("a", "b"),)
    assert profile(Case((TWO,), 1)).subsystems == ("subsystem 0", "subsystem 1")


def test_a_loop_is_unrolled_in_dataflow_order():
    loop = Program(np.zeros(2, int), np.ones(2), np.ones(2), ((), (0,)), loops=(Loop(0, 2, 3),))
    found = profile(Case((loop,), 1, order="dataflow"), labels=(("a", "b"),))
    assert found.labels == (("a", "b") * 3,)
    assert sorted(found.instruction.tolist()) == list(range(6))


def test_too_long():
    loop = Program(np.zeros(1, int), np.ones(1), np.ones(1), ((),), loops=(Loop(0, 1, 10**7),))
    with pytest.raises(DseError, match="profile: found 10,000,000 entries"):
        profile(Case((loop,), 1))
