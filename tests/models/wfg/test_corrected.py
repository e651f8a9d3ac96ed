"""WFG corrected, against a walk over the graph in plain Python."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np

from dse.models.notation import TwoPipes
from dse.models.volkov import predict as volkov
from dse.models.wfg.corrected import exposed, predict
from dse.models.wfg.pipeline import ComputeBlock, terms


def warp_run(blocks, barriers, g):
    """CPR of WFG* (λ_mem^instr = 0); a block: how often, computations, ILP, waited loads, other accesses."""
    computation = [c * max(g.l_comp, g.L_comp / (ilp * g.omega)) for _, c, ilp, _, _ in blocks]  # Eq. L30
    cycles = sum(times * each for (times, *_), each in zip(blocks, computation, strict=True))
    loads = sum(times * loads for times, _, _, loads, _ in blocks)
    accesses = loads + sum(times * others for times, *_, others in blocks)
    between = cycles / (loads + barriers + 1)  # Eq. L35
    after_load = max(0.0, (accesses * g.l_mem - cycles) / accesses) if accesses else 0.0  # Eqs. L33, L34
    warp, reached = cycles, {"bandwidth" if after_load else "computation"}
    for times, comp_insts, ilp, loads, others in blocks:
        free = (g.omega - 1) / g.omega * between - comp_insts * g.L_comp / (g.omega * ilp)
        wait = g.L_mem / g.omega - max(0.0, free)  # Eq. L42
        warp += times * (loads * max(after_load, wait) + others * after_load)
        if loads:
            reached.add(("exposed" if wait > after_load else "hidden") + (", credited" if free > 0 else ""))
    return g.omega * warp, reached


def test_equals_the_paper_in_plain_python(equals_reference, lumped):
    def reference(p):
        q = lumped(p)
        times = q.waits if q.waits else 1.0
        loads = 1.0 if q.waits else 0.0
        block = (times, q.a_comp / times, p.ilp, loads, (q.a_mem - q.waits) / times)
        cycles, reached = warp_run([block], p.work_barrier, q)
        case = " and ".join(sorted(reached)) if q.a_mem else "no memory"
        return case, {"cycles": cycles * p.waves}

    cases = {"no memory", "bandwidth", "computation"}
    cases |= {f"bandwidth and {wait}{free}" for wait in ("exposed", "hidden") for free in ("", ", credited")}
    # Without a wait for bandwidth, only credited cycles hide a load.
    cases |= {f"computation and {wait}" for wait in ("exposed", "exposed, credited", "hidden, credited")}
    equals_reference(predict, reference, cases)


def run(blocks, barriers, g):
    """The model's CPR for the same."""
    each = [
        ComputeBlock(comp_insts=c, ilp=ilp, mem_insts=loads + others, waits=loads, repeats=times)
        for times, c, ilp, loads, others in blocks
    ]
    pipes = TwoPipes(
        comp_insts=sum(times * c for times, c, *_ in blocks),
        comp_cpi=g.l_comp,
        mem_insts=sum(times * (loads + others) for times, _, _, loads, others in blocks),
        mem_cpi=g.l_mem,
        mem_latency=g.L_mem,
    )
    omega, latency = jnp.asarray(g.omega, float), jnp.float64(g.L_comp)
    parts, _ = terms(omega, pipes, latency, jnp.float64(0), jnp.float64(barriers), each, exposed)
    return np.sum(list(parts.values()), 0)


def test_unequal_blocks_equal_the_paper():
    blocks = [(1.0, 5.0, 1.0, 1.0, 0.0), (3.0, 40.0, 2.0, 1.0, 1.0), (1.0, 2.0, 1.5, 0.0, 1.0)]
    warps, reached = np.array([1.0, 2, 3, 5, 8, 16, 33, 64]), set()
    for l_mem, mem_latency in ((1.0, 400.0), (90.0, 500.0)):
        g = SimpleNamespace(omega=warps, l_comp=0.7, L_comp=11.0, l_mem=l_mem, L_mem=mem_latency)
        found = run(blocks, 2.0, g)
        for index, omega in enumerate(warps):
            expected, cases = warp_run(blocks, 2.0, SimpleNamespace(**vars(g) | {"omega": omega}))
            np.testing.assert_allclose(found[index], expected, rtol=1e-12)
            reached |= cases
    assert reached >= {"bandwidth", "computation", "exposed", "exposed, credited", "hidden, credited"}


def test_a_load_behind_a_short_block_is_credited_too_much():
    # Known error of Eq. L42: two warps are faster than one.
    g = SimpleNamespace(omega=np.array([1.0, 2.0]), l_comp=1.0, L_comp=10.0, l_mem=1.0, L_mem=100.0)
    found = run([(1.0, 1.0, 1.0, 1.0, 0.0), (1.0, 30.0, 1.0, 1.0, 0.0)], 0.0, g)
    np.testing.assert_allclose(found, [510, 468 + 1 / 3], rtol=1e-12)


def test_equal_blocks_never_beat_volkov_nor_get_faster_with_a_warp(plain, at):
    # Without independent instructions, stores and barriers both models mean the same by one warp's latency.
    warps = np.arange(1.0, 65)[:, None]
    p = plain(6, 200)
    p.ilp = p.mlp = 1.0
    p.store_insts, p.work_barrier, p.issue_limit = 0.0, 0.0, np.inf
    p.lsu_cycles, p.l1_with_shared = 0.0, 0.0  # what both subsystems share has no place in WFG
    p.warps_per_block, p.resident_blocks, p.waves = warps, 1.0, 1.0
    cycles, bound = np.asarray(at(predict, p).cycles), np.asarray(at(volkov, p).cycles)
    assert (np.diff(cycles, axis=0) >= -1e-12 * cycles[1:]).all()
    assert (cycles >= bound * (1 - 1e-12)).all()
