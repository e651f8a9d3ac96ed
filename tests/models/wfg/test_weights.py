"""The work flow graph against the paper in plain Python, which walks every way through it."""

from itertools import product
from random import Random
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dse.models.wfg.graph import Barrier, Compute, Memory, Scratchpad, WfgBranch, WfgLoop, leaves
from dse.models.wfg.weights import Hardware, average_warp, corrected, effective, once, published

# Graphs as nested lists: ("C", insts, ilp, uses), ("M", bytes, name, uses), ("S", cycles, uses), ("B", uses),
# ("LOOP", trips, body), ("BRANCH", taken, passed, then, otherwise)


def build(items: Any) -> tuple[Any, ...]:
    actual: list[Any] = []
    for kind, *rest in items:
        match kind:
            case "C":
                actual.append(Compute(insts=rest[0], ilp=rest[1], uses=rest[2]))
            case "M":
                actual.append(Memory(bytes=rest[0], name=rest[1], uses=rest[2]))
            case "S":
                actual.append(Scratchpad(cycles=rest[0], uses=rest[1]))
            case "B":
                actual.append(Barrier(uses=rest[0]))
            case "LOOP":
                actual.append(WfgLoop(trips=rest[0], body=build(rest[1])))
            case "BRANCH":
                then, otherwise = build(rest[2]), build(rest[3])
                actual.append(WfgBranch(taken=rest[0], passed=rest[1], then=then, otherwise=otherwise))
    return tuple(actual)


# The paper in plain Python


def ways(items: Any) -> list[tuple[float, list[Any]]]:
    """All ways through a graph, with their shares; loops stay."""
    actual: list[tuple[float, list[Any]]] = [(1.0, [])]
    for item in items:
        sides = [(1.0, [item])]
        if item[0] == "BRANCH":
            _, taken, passed, then, otherwise = item
            sides = [(taken / (taken + passed) * share, way) for share, way in ways(then)]
            sides += [(passed / (taken + passed) * share, way) for share, way in ways(otherwise)]
        actual = [(a * b, way + more) for (a, way), (b, more) in product(actual, sides)]
    return actual


def used_from_outside(items: Any) -> set[str]:
    names, issued = set(), set()
    for _, way in ways(items):
        for item in way:
            if item[0] == "LOOP":
                names |= used_from_outside(item[2])
            else:
                names |= set(item[-1])
                issued |= {item[2]} if item[0] == "M" else set()
    return names - issued


def weight(item: Any, h: dict[str, float], access: float, wait: float | None) -> float:
    match item[0]:
        case "C":
            return item[1] * h["u"] * max(1, h["pipeline"] / (h["u"] * item[2] * h["warps"]))  # Eq. 3
        case "M":
            return access
        case "S":
            return item[1]
        case "B":
            return h["u"]
    return item[1] * reduced(item[2], h, access, wait)


def reduced(items: Any, h: dict[str, float], access: float, wait: float | None) -> float:
    """Figs. 2 to 4: every way as a chain, in which each use lengthens the arc in front of it."""
    total = 0.0
    for share, way in ways(items):
        arcs: list[float] = []
        issued: dict[str, int] = {}
        for item in way:
            needed = used_from_outside(item[2]) if item[0] == "LOOP" else item[-1]
            for name in needed:
                between = sum(arcs[issued[name] :]) if name in issued else np.inf
                if wait is not None and wait > between:
                    arcs[-1] += wait - between
            if item[0] == "M":
                issued[item[2]] = len(arcs)
            arcs.append(weight(item, h, access, wait))
        total += share * sum(arcs)
    return total


def counted(items: Any, what: str, amount: Any = lambda item: 1) -> float:
    total = 0.0
    for share, way in ways(items):
        for item in way:
            if item[0] == "LOOP":
                total += share * item[1] * counted(item[2], what, amount)
            elif item[0] == what:
                total += share * amount(item)
    return total


def reference(items: Any, h: dict[str, float]) -> dict[str, float]:
    comp = reduced(items, h, h["u"], None)
    mem_insts, moved = counted(items, "M"), counted(items, "M", lambda item: item[1])
    barriers = counted(items, "B")
    mem = moved / h["beta"]
    bandwidth = (max(0, (mem - comp) / mem_insts) if mem_insts else 0) + h["u"]  # Eq. 4
    between = comp / (mem_insts + barriers + 1)  # Eq. 5
    exposed = h["latency"] - (h["warps"] - 1) * between  # Eq. 6
    return {
        "comp_cycles": comp,
        "mem_insts": mem_insts,
        "bytes": moved,
        "barriers": barriers,
        "mem_cycles": mem,
        "bandwidth_latency": bandwidth,
        "between_waits": between,
        "exposed_latency": exposed,
        "warp_latency": reduced(items, h, bandwidth, exposed),
    }


def hardware(h: dict[str, Any]) -> Hardware:
    return Hardware(
        issue_cycles=h["u"],
        pipeline_latency=h["pipeline"],
        bytes_per_cycle=h["beta"],
        mem_latency=h["latency"],
    )


def random_graph(rng: Random, depth: int = 2, known: tuple[str, ...] = ()) -> list[Any]:
    """Loads may be used anywhere behind them, on the other side of a branch and inside a loop too; not in
    front of them, and not behind the loop that they are in."""
    items: list[Any] = []
    for _ in range(rng.randint(0 if depth < 2 else 2, 4)):
        waited = tuple(rng.sample(known, min(len(known), rng.choice([0, 1, 1, 2]))))
        match rng.choice("CMSB" if depth == 0 else ["C", "M", "S", "B", "LOOP", "BRANCH"]):
            case "C":
                items.append(("C", float(rng.randint(1, 20)), rng.choice([1.0, 1.5, 2.0]), waited))
            case "M":
                name = str(rng.random())
                items.append(("M", rng.choice([128.0, 1024.0]), name, waited))
                known = (*known, name)
            case "S":
                items.append(("S", rng.choice([4.0, 32.0, 150.0]), waited))
            case "B":
                items.append(("B", waited))
            case "LOOP":
                items.append(("LOOP", float(rng.randint(1, 9)), random_graph(rng, depth - 1, known)))
            case "BRANCH":
                then, otherwise = (random_graph(rng, depth - 1, known) for _ in range(2))
                taken = rng.choice([0.0, 0.25, 0.5, 1.0])
                items.append(("BRANCH", taken, 1.25 - taken, then, otherwise))
                known = (*known, *(item[2] for item in [*then, *otherwise] if item[0] == "M"))
    return items


@settings(max_examples=60, derandomize=True, database=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    u=st.sampled_from([1.0, 4.0]),
    warps=st.sampled_from([1.0, 2.0, 5.0]),
    beta=st.sampled_from([4.0, 64.0]),
)
def test_equals_the_paper_in_plain_python(seed, u, warps, beta):
    items = random_graph(Random(seed))
    h = {"u": u, "warps": warps, "beta": beta, "pipeline": 24.0, "latency": 400.0}
    expected = reference(items, h)
    hides = expected["comp_cycles"] + expected["mem_insts"] * (expected["bandwidth_latency"] - u)
    event(f"waits: {expected['warp_latency'] > hides * (1 + 1e-9)}")
    actual = average_warp(build(items), hardware(h), jnp.float64(warps))
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(actual, name), value, rtol=1e-12, err_msg=name)


FIG_1 = (Compute(insts=2), Memory(bytes=128, name="A"), Compute(insts=1, uses=("A",)))
GEFORCE = Hardware(issue_cycles=32 / 8, pipeline_latency=24, bytes_per_cycle=4, mem_latency=250)


def branchy(share: Any) -> tuple[Any, ...]:
    loop = WfgLoop(trips=3, body=(Memory(bytes=128, name="B"), Compute(insts=2, uses=("B",))))
    otherwise = (Scratchpad(cycles=32), Barrier())
    branch = WfgBranch(taken=share, passed=1 - share, then=(Compute(insts=30), loop), otherwise=otherwise)
    return (Memory(bytes=256, name="A"), branch, Compute(insts=4, ilp=2, uses=("A",)))


def test_one_trace_serves_a_structure_and_any_shape_of_weights():
    share, warps = np.linspace(0, 1, 3)[:, None], np.array([[1.0, 7.0, 24.0, 48.0]])
    machine = Hardware(issue_cycles=4, pipeline_latency=24, bytes_per_cycle=8, mem_latency=400)
    run = jax.jit(eqx.debug.assert_max_traces(average_warp, max_traces=1))
    whole = run(branchy(share), machine, jnp.asarray(warps))
    assert whole.warp_latency.shape == (3, 4)
    run(branchy(share / 2), machine, jnp.asarray(warps + 1))
    for row, column in np.ndindex(3, 4):
        actual = average_warp(branchy(share.flat[row]), machine, jnp.float64(warps[0, column]))
        np.testing.assert_allclose(actual.warp_latency, whole.warp_latency[row, column], rtol=1e-14)


# What the paper leaves open


def unrolled(trips: int, body: Any) -> tuple[Any, ...]:
    """The body so many times, where `+name` is a load of the same trip and `-name` one of the trip before."""
    actual: list[Any] = []
    for trip in range(trips):
        for kind, *rest in body:
            *rest, waited = rest
            names = tuple(f"{name[1:]}{trip - (name[0] == '-')}" for name in waited)
            rest = [rest[0], f"{rest[1]}{trip}"] if kind == "M" else rest
            actual.append((kind, *rest, names))
    return build(actual)


@pytest.mark.parametrize("trips", [1, 2, 7])
@pytest.mark.parametrize("within", [False, True])
def test_loads_for_the_next_trip_are_as_in_the_unrolled_loop(trips, within):
    body = [("C", 3.0, 1.0, ("-x", "-y")), ("M", 128.0, "x", ()), ("C", 9.0, 2.0, ()), ("M", 512.0, "y", ())]
    body = [*body, ("S", 20.0, ()), ("S", 7.0, ("+x",) if within else ())]
    rolled = [(kind, *rest[:-1], tuple(name[1:] for name in rest[-1])) for kind, *rest in body]
    behind = Compute(insts=3, uses=("y",)), Compute(insts=3, uses=(f"y{trips - 1}",))
    for latency in (50.0, 500.0):
        machine = Hardware(issue_cycles=1, pipeline_latency=20, bytes_per_cycle=64, mem_latency=latency)
        actual = average_warp((*build([("LOOP", trips, rolled)]), behind[0]), machine, jnp.float64(2))
        expected = average_warp((*unrolled(trips, body), behind[1]), machine, jnp.float64(2))
        np.testing.assert_allclose(actual.warp_latency, expected.warp_latency, rtol=1e-12)


def test_many_branches_stay_few_ways_and_a_warp_that_splits_takes_both():
    # 2^40 ways: where nothing is waited for, their mean is exact.
    sides = WfgBranch(taken=0.5, passed=0.5, then=(Scratchpad(cycles=1),), otherwise=(Scratchpad(cycles=3),))
    graph = (Memory(bytes=128, name="A"), *[sides] * 40, Scratchpad(cycles=0, uses=("A",)))
    machine = Hardware(issue_cycles=1, pipeline_latency=1, bytes_per_cycle=128, mem_latency=10)
    assert average_warp(graph, machine, jnp.float64(1)).warp_latency == pytest.approx(81)
    branch = WfgBranch(taken=1, passed=1, then=(Scratchpad(cycles=10),), otherwise=(Barrier(), Barrier()))
    machine = Hardware(issue_cycles=1, pipeline_latency=1, bytes_per_cycle=1, mem_latency=10)
    actual = [average_warp((branch,), machine, jnp.float64(1), serial=serial) for serial in (False, True)]
    assert [float(item.warp_latency) for item in actual] == [6, 12]
    assert [float(item.barriers) for item in actual] == [1, 2]
    half = WfgBranch(taken=0.75, passed=0.5, then=(Scratchpad(cycles=10),), otherwise=(Scratchpad(cycles=2),))
    assert average_warp((half,), machine, jnp.float64(1), serial=True).warp_latency == 0.75 * 10 + 0.5 * 2


# Corrected exposed latency, and parallelism


def chain(loads: int) -> tuple[Any, ...]:
    actual: list[Any] = []
    for number in range(loads):
        waits = (f"{number - 1}",) if number else ()
        actual += [
            Compute(insts=10, ilp=2, cpi=0.5, latency=12, uses=waits),
            Memory(bytes=60, name=f"{number}"),
        ]
    return (*actual, Compute(insts=0, uses=(f"{loads - 1}",)))


@pytest.mark.parametrize("exposed", [published, once, corrected])
def test_a_chain_is_wfg_in_the_pipeline_papers_notation(exposed):
    # Eqs. L30 to L42 written out: blocks of ten instructions, λ 0.5, Λ 12, ILP 2, each with its load.
    for warps in (1, 3, 24):
        machine = Hardware(issue_cycles=2, pipeline_latency=99, bytes_per_cycle=10, mem_latency=400)
        block = 10 * max(0.5, 12 / 2 / warps)
        comp = 5 * (block + 2)
        between = comp / 6
        wait = {
            published: 400 - (warps - 1) * between,
            once: (400 - (warps - 1) * between) / warps,
            corrected: 400 / warps - max(0, (warps - 1) / warps * between - 10 * 12 / (warps * 2)),
        }[exposed]
        cost = max(2 + max(0, (5 * 6 - comp) / 5), wait)
        actual = average_warp(chain(5), machine, jnp.float64(warps), exposed)
        np.testing.assert_allclose(actual.warp_latency, 5 * (block + cost), rtol=1e-12)


def test_parallelism_of_the_regions_of_fig_5():
    # n instructions of all warps, p of a fraction ρ1 and q of ρ2; ILP of their own.
    (n, p, q), (rho_1, rho_2) = (10, 30, 5), (0.25, 0.8)
    branch = WfgBranch(
        taken=rho_1, passed=rho_2, then=(Compute(insts=p, ilp=3),), otherwise=(Compute(insts=q, ilp=2),)
    )
    graph = (Compute(insts=n, ilp=1), branch)
    warps, blocks = 24.0, np.array([1.0, 4.0])
    average = (p * rho_1 + q * rho_2 + n) * warps / (p + q + n)  # Eq. 7
    ilp = (p * rho_1 * 3 + q * rho_2 * 2 + n) / (p * rho_1 + q * rho_2 + n)  # Eq. 8, its denominator mended
    actual = effective(graph, jnp.float64(warps), jnp.asarray(blocks))
    for node, share, own in zip(leaves(actual), (1, rho_1, rho_2), (1, 3, 2), strict=True):
        assert isinstance(node, Compute)
        np.testing.assert_allclose(node.warps, (share * warps + (blocks - 1) * average) / blocks)  # Eq. 1
        np.testing.assert_allclose(node.ilp, (own + (blocks - 1) * ilp) / blocks)  # Eq. 2
    in_a_loop = effective((WfgLoop(trips=3, body=graph), Barrier()), jnp.float64(warps), jnp.float64(4))
    average = (3 * (p * rho_1 + q * rho_2 + n) + 1) * warps / (3 * (p + q + n) + 1)
    first = next(leaves(in_a_loop))
    assert isinstance(first, Compute)
    np.testing.assert_allclose(first.warps, (warps + 3 * average) / 4)
    nobody = effective((WfgBranch(taken=0, passed=1, then=FIG_1),), jnp.float64(8), jnp.float64(1))
    first = next(leaves(nobody))
    assert isinstance(first, Compute | Memory)
    assert first.warps == 1
    assert np.isfinite(average_warp(nobody, GEFORCE, jnp.float64(8)).warp_latency)
