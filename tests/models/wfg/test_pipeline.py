"""WFG in the Pipeline paper's notation, against a walk over the graph in plain Python."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from dse.models.notation import TwoPipes
from dse.models.volkov import predict as volkov
from dse.models.wfg.pipeline import ComputeBlock, exposed, predict, terms


def walk(nodes, g):
    """Both passes of Sec. 2.4. A node is C (instructions, ILP), M (whether the load is waited for) or B,
    with how often it is executed. `g`: omega, l_comp, L_comp, l_mem, L_mem, l_instr."""
    computation = memory = waits = barriers = 0.0
    for kind, times, *rest in nodes:
        if kind == "C":  # Eq. L30
            computation += times * rest[0] * max(g.l_comp, g.L_comp / (rest[1] * g.omega))
        elif kind == "M":
            memory += times
            waits += times * rest[0]
        else:
            barriers += times
    cycles = computation + g.l_instr * (memory + barriers)  # Eqs. L31, L32: CYC_comp
    between = cycles / (waits + barriers + 1)  # Eq. L35
    left = (memory * g.l_mem - cycles) / memory if memory else 0.0
    after_load = g.l_instr + max(0.0, left)  # Eqs. L33, L34
    warp = computation + g.l_instr * barriers
    reached = set()
    for kind, times, *rest in nodes:
        if kind == "M":
            wait = g.L_mem - (g.omega - 1) * between  # Eq. L36
            warp += times * (max(after_load, wait) if rest[0] else after_load)
            if rest[0] and times:
                reached.add("exposed" if wait > after_load else "hidden")
    reached.add("bandwidth" if left > 0 else "computation")
    return warp * g.omega, cycles, between, reached  # Eqs. L37, L39


def described(p, q):
    """Equal blocks, one for each wait; where nothing is waited for, one."""
    waits = p.load_insts / p.mlp
    blocks = waits if waits else 1.0
    nodes = [("C", blocks, q.a_comp / blocks, p.ilp), ("M", waits, 1), ("M", q.a_mem - waits, 0)]
    return [*nodes, ("B", p.work_barrier)]


def test_equals_the_paper_in_plain_python(equals_reference, lumped):
    def reference(p):
        q = lumped(p)
        q.l_instr = 1 / p.issue_limit
        nodes = described(p, q)
        cycles, comp_cycles, between, reached = walk(nodes, q)
        found = {"cycles": cycles * p.waves, "comp_cycles": comp_cycles, "between_waits": between}
        case = " and ".join(sorted(reached)) if q.a_mem else "no memory"
        return case if q.a_comp else f"{case}, no computation", found

    shared = {f"{bound}{wait}" for bound in ("bandwidth", "computation") for wait in ("", " and exposed")}
    cases = shared | {"bandwidth and hidden", "computation and hidden", "no memory"}
    cases |= {f"{case}, no computation" for case in cases}
    equals_reference(predict, reference, cases)


@pytest.fixture(scope="module")
def blockwise():
    """CPR of a graph of (computations, ILP, waited loads, other accesses) blocks and so many barriers."""

    @jax.jit
    def run(blocks, barriers, g):
        comp_insts, ilp, loads, others = blocks
        each = [
            ComputeBlock(comp_insts=c, ilp=i, mem_insts=m + o, waits=m, repeats=1.0)
            for c, i, m, o in zip(comp_insts, ilp, loads, others, strict=True)
        ]
        pipes = TwoPipes(
            comp_insts=sum(comp_insts),
            comp_cpi=g["l_comp"],
            mem_insts=sum(loads) + sum(others),
            mem_cpi=g["l_mem"],
            mem_latency=g["L_mem"],
        )
        parts, _ = terms(g["omega"], pipes, g["L_comp"], g["l_instr"], barriers, each, exposed)
        return sum(parts.values())

    return run


def test_unequal_blocks_equal_the_paper(blockwise):
    random, reached = np.random.default_rng(3), set()
    for _ in range(200):
        g = {
            "omega": float(random.integers(1, 33)),
            "l_comp": 10 ** random.uniform(-1, 1),
            "L_comp": 10 ** random.uniform(0, 2),
            "l_mem": 10 ** random.uniform(-1, 2.5),
            "L_mem": 10 ** random.uniform(1, 3),
            "l_instr": random.uniform(0, 2),
        }
        blocks = np.array(
            [
                np.floor(10 ** random.uniform(0, 2, 3)),
                random.uniform(1, 4, 3),
                random.integers(0, 2, 3),
                random.integers(0, 2, 3),
            ]
        )
        barriers, nodes = float(random.integers(0, 4)), []
        for comp_insts, ilp, load, others in blocks.T:
            nodes += [("C", 1, comp_insts, ilp), ("M", load, 1), ("M", others, 0)]
        expected, *_, cases = walk([*nodes, ("B", barriers)], SimpleNamespace(**g))
        found = blockwise(list(map(list, blocks)), barriers, g)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        reached |= cases
    assert reached == {"exposed", "hidden", "bandwidth", "computation"}


@pytest.mark.parametrize(
    ("latency", "mem_latency", "constant", "slope"),
    [(8, 6, 12, 2), (11, 3, 16.5, -2.5), (3, 11, 4.5, 9.5)],  # Lemeire et al., Fig. 6
)
def test_figure_6(point, at, latency, mem_latency, constant, slope):
    # One load behind computation of `latency` cycles; Eq. L40, while latency is exposed; Volkov has 14.
    warps = np.array([1.0, 1.25, 1.5])
    p = point(
        work_fp32=4.0,
        latency_fp32=latency / 4,
        load_insts=1.0,
        sectors=1.0,
        work_l2=1.0,
        work_dram=1.0,
        latency_dram=mem_latency,
        warps_per_block=warps,
    )
    np.testing.assert_allclose(at(predict, p).cycles, constant + slope * warps, rtol=1e-14)
    np.testing.assert_allclose(at(volkov, p).cycles, 14, rtol=1e-14)


def test_slightly_above_volkov_at_three_and_four_warps(blockwise, example, at):
    # Lemeire et al., Sec. 2.4.1: two computations of ILP 2, a load, two of ILP 1, a load
    warps = np.arange(1.0, 9)
    g = {"omega": warps, "l_comp": 1.0, "L_comp": 4.0, "l_mem": 2.0, "L_mem": 6.0, "l_instr": 1.0}
    found = warps / blockwise([[2.0, 2.0], [2.0, 1.0], [1.0, 1.0], [0.0, 0.0]], 0.0, g)
    bound = warps / at(volkov, example(warps)).cycles
    assert (warps[found > 1.001 * bound]).tolist() == [1, 3, 4]
    assert (found[2:4] < 1.1 * bound[2:4]).all()
    np.testing.assert_allclose(1 / found[0], 24)  # with ILP 2 a pair costs one latency; Eq. L2 has 25
