"""Shares of the makespan: they add up, and the largest is what binds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from oracle import EVERY, Oracle, random_case

from dse.core import catalogue
from dse.errors import DseError
from dse.simulator import Case, Loop, Program, simulate
from dse.simulator.case import graph_file as graphs
from dse.simulator.result.profile import profile
from dse.simulator.result.shares import shares

KINDS = ("throughput", "latency", "same_warp")
RANDOM = 24


def chain(throughput_cycles, latency_cycles, **options):
    """Instructions one after another, one subsystem each."""
    n = len(throughput_cycles)
    preds = tuple((i - 1,) if i else () for i in range(n))
    return Program(
        np.arange(n), np.array(throughput_cycles, float), np.array(latency_cycles, float), preds, **options
    )


ALONE = chain([1, 2], [18, 40])
CASES = {
    "example": graphs.load(catalogue.folder("kernels") / "example" / "graph.toml").case,
    "one warp": Case((ALONE,), 1),
    "pipe": Case((ALONE,), 60),  # the second pipe is busy for 120 cycles, and 58 pass without it
    "issue": Case((chain([0, 0], [1, 1]),), 60, issue_limit=0.5),
    "self": Case((chain([1, 1, 1], [1, 1, 1], same_warp=np.array([9.0, 9.0, 0.0])),), 1),
    "groups": Case((chain([0], [5]),), 3, slots=1, groups=4),
    "nothing": Case((chain([0, 0], [0, 0]),), 2),
}


@pytest.fixture(scope="module")
def simulated():
    """All cases at once: they share a compilation."""
    rng = np.random.default_rng(4)
    features = "valve same_warp barriers sequence several"
    random = [random_case(rng, features) for _ in range(RANDOM)]
    return simulate([*CASES.values(), *random], critical=True)


@pytest.fixture(scope="module")
def found(simulated):
    """`found[name]`: shares of a constructed case."""
    return {name: shares(simulated, n) for n, name in enumerate(CASES)}


@pytest.mark.parametrize(
    ("name", "makespan", "of", "kind", "expected"),
    [
        ("one warp", 18 + 40, 1, "latency", [18, 40]),
        ("pipe", 18 + 59 * 2 + 40, 1, "throughput", [0, 59 * 2]),
        ("issue", 119 * 2 + 1, -1, "issue", 119 * 2),
        ("self", 9 + 9 + 1, 0, "same_warp", [9, 9, 0]),
        ("groups", 4 * 5, 0, "latency", [20]),
    ],
)
def test_what_binds_and_how_much(found, simulated, name, makespan, of, kind, expected):
    assert simulated.makespan[list(CASES).index(name)] == makespan
    assert found[name].bottleneck == (of, kind)
    np.testing.assert_allclose(getattr(found[name], kind), np.array(expected) / makespan)


def test_nothing_takes_no_share(found):
    none = found["nothing"]
    assert none.issue == 0
    for kind in KINDS:
        np.testing.assert_array_equal(getattr(none, kind), [0, 0])
    np.testing.assert_array_equal(none.instructions[0], [0, 0])
    single = Program(np.zeros(1, int), np.ones(1), np.ones(1), ((),))
    with pytest.raises(ValueError, match="found no critical paths"):
        shares(simulate([Case((single,), 1)]), 0)
    long = replace(single, loops=(Loop(0, 1, 2**28),))
    with pytest.raises(DseError, match="critical path: found a case of 268,435,456 entries"):
        simulate([Case((long,), 1)], critical=True)


def test_equals_a_walk_along_the_path_in_plain_python(simulated):
    reached = dict.fromkeys((*KINDS, "issue"), 0)
    for n in range(len(CASES), len(CASES) + RANDOM):
        case, single = simulated.cases[n], shares(simulated, n)
        expected = Oracle(case)
        path = expected.critical()
        by = {kind: [0.0] * case.subsystems for kind in KINDS}
        for p, program in enumerate(case.programs):
            of = [0.0] * len(program)
            terms = (program.throughput_cycles, program.latency_cycles, program.same_warp)
            for i in range(len(program)):
                for kind, counts, term in zip(KINDS, ("lam", "Lam", "self"), terms, strict=True):
                    cycles = path[counts][p][i] * float(term[i])
                    by[kind][program.subsystem[i]] += cycles / expected.makespan
                    of[i] += cycles / expected.makespan
            np.testing.assert_allclose(single.instructions[p], of, atol=1e-12)
        for kind in KINDS:
            np.testing.assert_allclose(getattr(single, kind), by[kind], atol=1e-12)
            reached[kind] += any(by[kind])
        valve = 0.0 if math.isinf(case.issue_limit) else path["valve"] / case.issue_limit
        assert single.issue == pytest.approx(valve / expected.makespan)
        reached["issue"] += valve > 0
    assert min(reached.values()) > 3


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
