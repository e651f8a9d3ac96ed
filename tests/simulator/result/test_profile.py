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
    found, expected = profile(case), Oracle(case)
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


def test_names_and_loops():
    assert profile(Case((TWO,), 1)).subsystems == ("subsystem 0", "subsystem 1")
    loop = replace(TWO, loops=(Loop(0, 2, 3),))
    found = profile(Case((loop,), 1, order="dataflow"), ("computation", "memory"), (("a", "b"),))
    assert found.subsystems == ("computation", "memory")
    assert found.labels == (("a", "b") * 3,)  # unrolled
    assert sorted(found.instruction.tolist()) == list(range(6))
    with pytest.raises(DseError, match="profile: found 20,000,000 entries"):
        profile(Case((replace(TWO, loops=(Loop(0, 2, 10**7),)),), 1))
