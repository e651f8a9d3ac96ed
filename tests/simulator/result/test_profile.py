"""A profile is what a literal simulation enters, entry by entry."""

from dataclasses import replace

import numpy as np
import pytest
from oracle import Oracle, random_case

from dse.errors import DseError
from dse.simulator import Case, Loop, Program
from dse.simulator.result.profile import profile

EVERY = "valve cap same_warp barriers sequence several"
TWO = Program(np.array([0, 1]), np.ones(2), np.full(2, 4.0), ((), (0,)))


def test_equals_plain_python():
    case = random_case(np.random.default_rng(5), EVERY)
    actual, expected = profile(case), Oracle(case)
    log = expected.log
    assert actual.time.tolist() == [e["t"] for e in log]
    assert actual.done.tolist() == [e["done"] for e in log]
    assert actual.accepts.tolist() == [e["t"] + e["lam"] for e in log]
    for name, key in (("warp", "w"), ("group", "group"), ("program", "program"), ("instruction", "i"),
                      ("subsystem", "s")):  # fmt: skip
        assert getattr(actual, name).tolist() == [e[key] for e in log]
    assert actual.waited_for.tolist() == [-1 if e["cause"] is None else e["cause"][0] for e in log]
    assert actual.makespan == expected.makespan
    assert actual.done[actual.critical[-1]] == actual.makespan
    assert actual.waited_for[actual.critical[0]] == -1
    assert actual.waited_for[actual.critical[1:]].tolist() == actual.critical[:-1].tolist()


def test_names_and_loops():
    assert profile(Case((TWO,), 1)).subsystems == ("subsystem 0", "subsystem 1")
    loop = replace(TWO, loops=(Loop(0, 2, 3),))
    actual = profile(Case((loop,), 1, order="dataflow"), ("computation", "memory"), (("a", "b"),))
    assert actual.subsystems == ("computation", "memory")
    assert actual.labels == (("a", "b") * 3,)  # unrolled
    assert sorted(actual.instruction.tolist()) == list(range(6))
    with pytest.raises(DseError, match="profile: found 20,000,000 entries"):
        profile(Case((replace(TWO, loops=(Loop(0, 2, 10**7),)),), 1))
