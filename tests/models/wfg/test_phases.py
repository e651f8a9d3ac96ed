"""The graph of a kernel whose phases are known, against the equations in plain Python."""

from dataclasses import replace
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from points import build, point

from dse.models.wfg import corrected, counts, pipeline
from dse.types import CLASSES, PerClass, Phase

PHASES = (  # λ 0.5, Λ 6 of every pipe
    {"passes": 1.0, "fp32": 2.0, "int32": 30.0, "shared": 0.0, "l1": 1.0, "l2": 3.0, "barrier": 0.0},
    {"passes": 5.5, "fp32": 80.0, "int32": 8.0, "shared": 40.0, "l1": 4.0, "l2": 2.0, "barrier": 2.0},
)
WAITS = ({"fp32": 9.0, "shared": 0.0, "dram": 0.0}, {"fp32": 20.0, "shared": 7.0, "dram": 1.5})
COPIES, SLOTS, INSTS, MEMORY_INSTS = (0.25, 0.0), (40.0, 100.0), (40.0, 140.0), (3.0, 45.0)


def per_class(values):
    return PerClass(**(dict.fromkeys(CLASSES, 0.0) | values))


@pytest.fixture(params=[1.0, 8.0])
def case(request):
    pipes = ("fp32", "int32", "shared", "l1", "l2", "dram", "barrier")
    times = {f"cpi_{name}": 0.5 for name in pipes} | {f"latency_{name}": 6.0 for name in pipes}
    times |= {"cpi_l2": 9.0, "latency_l2": 200.0, "latency_dram": 400.0}
    times |= {"issue_limit": 4.0, "lsu_cycles": 0.75}
    work = {f"work_{name}": sum(p["passes"] * p[name] for p in PHASES) for name in (*pipes[:5], "barrier")}
    more = {"load_insts": 20.0, "store_insts": 4.0, "sectors": 14.0}
    more |= {"shared_insts": 220.0, "other_insts": 9.0}
    gpu, kernel, launch = build(point(**times, **work, **more, warps_per_block=request.param))
    phases = tuple(
        Phase(
            work=per_class({name: work for name, work in p.items() if name != "passes"}),
            async_work=None,
            waits=per_class(waits),
            async_waits=per_class({"l2": copies}),
            passes=p["passes"],
            insts=insts,
            memory_insts=memory_insts,
            slots=slots,
        )
        for p, waits, copies, slots, insts, memory_insts in zip(
            PHASES, WAITS, COPIES, SLOTS, INSTS, MEMORY_INSTS, strict=True
        )
    )
    loads = [sum((waits["dram"], copies)) for waits, copies in zip(WAITS, COPIES, strict=True)]
    lumped = SimpleNamespace(omega=request.param, loads=loads, mem_insts=24.0)
    moved = [p["l1"] + p["l2"] for p in PHASES]
    whole = sum(p["passes"] * item for p, item in zip(PHASES, moved, strict=True))
    lumped.accesses = [24.0 * item / whole for item in moved]
    lumped.l_mem = work["work_l2"] * 9.0 / 24.0
    lumped.L_mem = 200.0  # all its sectors come from the L2
    return gpu, replace(kernel, phases=phases), launch, lumped


def cycles_of(q, computed, barriers, issue, accesses, exposed_of):
    """CPR: of each block its trips, those waited for, its accesses, and what goes before a load's use."""
    comp = sum(p["passes"] * c for p, c in zip(PHASES, computed, strict=True)) + issue * barriers
    total = sum(trips * item for trips, _, item in accesses)
    comp += issue * total
    transfer = issue + max(0.0, (total * q.l_mem - comp) / total)  # Eq. 4, L33, L34
    late = exposed_of(comp, total, transfer)
    waits = sum(trips * waited * wait for (trips, waited, _), wait in zip(accesses, late, strict=True))
    return q.omega * (comp + total * (transfer - issue) + waits), waits


def trips_of(q):
    """(trips of a phase in all, the share that waits, accesses of a trip)."""
    for p, loads, accesses in zip(PHASES, q.loads, q.accesses, strict=True):
        trips = max(loads, 1.0)
        yield p["passes"] * trips, min(loads, 1.0), accesses / trips


@pytest.mark.quick("8.0")
def test_wfg_has_a_loop_for_each_phase(case):
    gpu, kernel, launch, q = case
    computed = []
    for number, (p, waits, accesses) in enumerate(zip(PHASES, WAITS, q.accesses, strict=True)):
        busy = max((INSTS[number] - accesses) / 4.0, 0.5 * p["fp32"], 0.5 * p["int32"])
        shared = max(0.5 * p["shared"], 0.75 * (MEMORY_INSTS[number] - accesses))
        shared = max(shared, 6.0 * waits["shared"] / q.omega)
        computed.append(max(busy, (6.0 * waits["fp32"] + SLOTS[number]) / q.omega) + shared)  # Eq. 3
    barriers = sum(p["passes"] * p["barrier"] for p in PHASES)
    accesses = [(trips, waited, max(item, waited)) for trips, waited, item in trips_of(q)]

    def exposed(comp, total, transfer):
        late = q.L_mem - (q.omega - 1) * comp / (total + barriers + 1)  # Eqs. 5, 6
        return [max(0.0, late - (1.0 + item - waited) * transfer) for _, waited, item in accesses]

    expected, waited = cycles_of(q, computed, barriers, 0.25, accesses, exposed)
    assert waited > 0
    np.testing.assert_allclose(counts.predict(gpu, kernel, launch).cycles, expected, rtol=1e-12)
    # Empty phases, which fill up kernels beside others with more: no change, finite gradients.
    empty = jax.tree.map(jnp.zeros_like, kernel.phases[:1])
    padded = eqx.tree_at(lambda k: k.phases, kernel, kernel.phases + empty)
    for model in (counts, pipeline, corrected):
        alone, filled = (model.predict(gpu, item, launch).cycles for item in (kernel, padded))
        np.testing.assert_allclose(filled, alone, rtol=1e-12)
        if q.omega > 1:
            continue
        slopes = eqx.filter_grad(lambda gpu, model=model: model.predict(gpu, padded, launch).cycles)(gpu)
        assert all(np.isfinite(leaf) for leaf in jax.tree.leaves((slopes.cpi, slopes.latency)))


@pytest.mark.parametrize("model", [pipeline, corrected])
def test_other_notation_has_blocks_for_each_phase(case, model):
    gpu, kernel, launch, q = case
    issue = 0.25 if model is pipeline else 0.0
    alone = [6.0 * (w["fp32"] + w["shared"]) + slots for w, slots in zip(WAITS, SLOTS, strict=True)]
    computed = [
        max(
            (INSTS[number] - accesses) / 4.0,
            *(0.5 * p[name] for name in ("fp32", "int32", "shared")),
            0.75 * (MEMORY_INSTS[number] - accesses),
            alone[number] / q.omega,
        )  # L30
        for number, (p, accesses) in enumerate(zip(PHASES, q.accesses, strict=True))
    ]
    barriers = sum(p["passes"] * p["barrier"] for p in PHASES)
    accesses = list(trips_of(q))

    def exposed(comp, total, transfer):
        waits = sum(trips * waited for trips, waited, _ in accesses)
        between = comp / (waits + barriers + 1)  # L35
        in_front = [item / max(loads, 1.0) for item, loads in zip(alone, q.loads, strict=True)]
        if model is pipeline:
            late = [q.L_mem - (q.omega - 1) * between] * 2  # L36
        else:
            late = [(q.L_mem - max(0.0, (q.omega - 1) * between - x)) / q.omega for x in in_front]  # L42
        return [max(0.0, x - transfer) for x in late]

    expected, _ = cycles_of(q, computed, barriers, issue, accesses, exposed)
    np.testing.assert_allclose(model.predict(gpu, kernel, launch).cycles, expected, rtol=1e-12)
