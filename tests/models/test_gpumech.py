"""GPUMech's three variants, against the equations in plain Python."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from points import build, equals_reference, lumped, point

from dse.models import gpumech, gpumech_gto, gpumech_rr, gpumech_rr_corrected
from dse.types import CLASSES, Kernel, PerClass, Phase

VARIANTS = {"rr": gpumech_rr, "rr*": gpumech_rr_corrected, "gto": gpumech_gto}


def reference(variant, intervals, warps, rate=1.0):
    """CPR, IPC, Σ o_i of rows (n, s, repeats), from the paper's equations."""
    insts = sum(n * k for n, _, k in intervals)
    alone = sum((n / rate + s) * k for n, s, k in intervals)
    p = insts / alone if alone else 0.0
    number = sum(k for *_, k in intervals)
    others = 0.0
    for n, s, k in intervals:
        if variant == "rr":
            o = p * (warps - 1) * max(n - 1, 0)
        elif variant == "rr*":
            o = max((warps - 1) * n - min(s, warps - 1), 0)
        else:
            o = max(0.0, min(1.0, p * s) * (warps - 1) * insts / number - rate * s)
        others += o * k
    cycles = alone + others / rate
    return cycles, warps * insts / cycles if cycles else 0.0, others


ROWS = st.lists(
    st.tuples(st.integers(1, 30), st.sampled_from([0, 1, 5, 20, 100, 400]), st.integers(1, 3)), max_size=6
)


COMPILED = {
    name: jax.jit(partial(gpumech.run, nonoverlapped=module.nonoverlapped))
    for name, module in VARIANTS.items()
}


def run(variant, cases, rate=1.0):
    """CPR, IPC, Σ o_i of four lists of rows and warps each, padded with zeros to one length."""
    padded = np.array([list(rows) + [(0, 0, 0)] * (6 - len(rows)) for rows, _ in cases], float)
    insts, stalls, repeats = (jnp.asarray(padded[..., k]) for k in range(3))
    of_warp = gpumech.Intervals(insts=insts, stalls=stalls, repeats=repeats)
    warps = jnp.array([float(warps) for _, warps in cases])
    parts, details = COMPILED[variant](of_warp, warps, jnp.float64(rate))
    return np.stack([sum(parts.values()), details["ipc"], details["nonoverlapped_insts"]], -1)


@given(
    cases=st.lists(st.tuples(ROWS, st.integers(1, 64)), min_size=4, max_size=4), rate=st.sampled_from([1, 2])
)
def test_equals_the_paper_in_plain_python(cases, rate):
    for variant in VARIANTS:
        expected = [reference(variant, rows, warps, rate) for rows, warps in cases]
        np.testing.assert_allclose(run(variant, cases, rate), expected, rtol=1e-12)


def in_slots(p, insts, times, latency):
    """The one interval of a warp in issue slots, and what it repeats."""
    if times == 0:
        return [(insts, 0.0, 1.0)]
    return [(insts / times, max(latency * p.issue_limit - 1, 0.0), times)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_of_a_described_kernel(variant):
    def of_point(p):
        q = lumped(p)
        insts = q.a_comp + p.other_insts + q.a_mem + p.work_barrier
        cycles, ipc, others = reference(variant, in_slots(p, insts, q.waits, q.L_mem), q.omega)
        actual = {"cycles": cycles / p.issue_limit * p.waves, "nonoverlapped_insts": others}
        actual |= {"ipc": ipc}
        return "nothing" if not insts else "waits" if q.waits else "computes", actual

    cases = {"nothing", "waits", "computes"}
    equals_reference(VARIANTS[variant].predict, of_point, cases, examples=10)


@pytest.mark.slow
def test_of_phases():
    gpu, kernel, launch = build(
        point(issue_limit=2.0, latency_dram=400.0, latency_l2=200.0, warps_per_block=8.0, resident_blocks=2.0)
    )

    def phase(passes, insts, **waits):
        none = dict.fromkeys(CLASSES, 0.0)
        return Phase(
            work=PerClass(**none), async_work=PerClass(**none),
            waits=PerClass(**none | waits), async_waits=PerClass(**none),
            passes=passes, insts=insts, memory_insts=0.0, slots=0.0,
        )  # fmt: skip

    phases = (phase(1.0, 30.0), phase(10.0, 12.0, dram=2.0, l2=1.0), phase(0.0, 5.0, dram=1.0))
    kernel = Kernel(**{**vars(kernel), "phases": phases})
    # In slots: 30 without a wait; 10 times 3 intervals of 4 that wait for (400 + 400 + 200) / 3 cycles
    rows = [(30.0, 0.0, 1.0), (4.0, 2000 / 3 - 1, 30.0), (5.0, 799.0, 0.0)]
    for variant, module in VARIANTS.items():
        actual = float(module.predict(gpu, kernel, launch).cycles)
        assert actual == pytest.approx(reference(variant, rows, 16)[0] / 2, rel=1e-12)
