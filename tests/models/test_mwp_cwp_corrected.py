"""MWP-CWP corrected, against the largest of Eqs. L26 to L28 in plain Python."""

import jax.numpy as jnp
import numpy as np
from points import apart, equals_reference, lumped

from dse.models.mwp_cwp_corrected import bounds, predict
from dse.models.notation import TwoPipes


def latency_of_one_warp(p, q):
    """Λ_app, Eq. L2."""
    alone = q.wait_comp / p.ilp + q.pipes_comp * (1 - 1 / p.ilp) + p.work_barrier * p.latency_barrier
    return alone + q.waits * q.L_mem + (q.a_mem - q.waits) * q.l_mem


def reference(p):
    q = lumped(p)
    alone = latency_of_one_warp(p, q)  # in place of Λ*_app
    insts = q.a_comp + q.a_mem + p.work_barrier
    others = {  # Eq. L3: what the notation has no place for
        "issue": insts / p.issue_limit * q.omega
    } | {name: q.busy[name] * q.omega for name in ("l1", "lsu", "barrier")}
    if q.a_mem == 0:
        runs = {"compute": q.busy_comp * q.omega, "latency": alone} | others
        case = max(runs, key=runs.__getitem__)
        return f"no memory, {case}", {"cycles": runs[case] * p.waves}
    period = q.ci * q.l_comp
    mwp = q.L_mem / q.l_mem if q.l_mem else np.inf
    part = min(q.a_mem, 1)  # of the warps have a period
    runs = {
        "memory": q.a_mem * q.l_mem * q.omega + part * period * min(mwp, q.omega),  # Eq. L26, clamped
        "compute": q.a_comp * q.l_comp * q.omega + part * q.L_mem,  # Eq. L27
        "latency": alone + part * period * (q.omega - 1),  # Eq. L28
    } | others
    case = max(runs, key=runs.__getitem__)
    actual = {"cycles": runs[case] * p.waves, "mwp": mwp}
    if sum(not apart(value, runs[case]) for value in runs.values()) == 1:
        actual |= {f"{name} term": runs[case] * p.waves * (name == case) for name in runs}
    return case, actual


def test_equals_the_paper_in_plain_python():
    cases = {"memory", "compute", "latency", "issue", "barrier", "l1", "lsu"}
    cases |= {f"no memory, {item}" for item in ("compute", "latency", "issue", "barrier")}
    equals_reference(predict, reference, cases)


def test_one_warp_is_charged_no_more_than_its_own_latency():
    # Known error: Eq. L26 taken literally charges MWP = 200 periods to the one warp there is, 20002 cycles.
    pipes = TwoPipes(comp_insts=100.0, comp_cpi=1.0, mem_insts=1.0, mem_cpi=2.0, mem_latency=400.0)
    single = bounds(jnp.float64(1), pipes, jnp.float64(1000))
    assert {name: float(cycles) for name, cycles in single.items()} == {
        "memory": 2 * 1 + 100 * 1,
        "compute": 500,
        "latency": 1000,
    }
    many = bounds(jnp.float64(300), pipes, jnp.float64(1000))
    np.testing.assert_allclose(300 * many["memory"], 2 * 300 + 100 * 200, rtol=1e-14)
