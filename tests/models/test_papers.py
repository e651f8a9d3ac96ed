"""Every closed form against its paper's equations in plain Python, and what of the papers is open.

A reference gives the case that a point is in, None where rounding could put it in another, and what it
knows of the prediction.
"""

import math
import operator
from functools import partial
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from points import ARITHMETIC, OWN_PIPES, apart, at, equals_reference, example, lumped, point

from dse import models
from dse.models import mwp_cwp_corrected as corrected
from dse.models import mwp_cwp_pipeline as pipeline
from dse.models.mwp_cwp import CASES
from dse.models.notation import TwoPipes

PIPES = (*OWN_PIPES, "lsu", "tensor")


def roofline(p):
    slowest, name = 0.0, PIPES[0]
    for pipe, busy in lumped(p).busy.items():
        if busy > slowest:
            slowest, name = busy, pipe
    cycles = slowest * p.warps_per_block * p.resident_blocks * p.waves
    terms = {f"{pipe} term": cycles if pipe == name else 0.0 for pipe in PIPES}
    # where L1 and shared memory are one and only the latter works, both are as busy: the first takes it
    tied = p.l1_with_shared and name in ("shared", "l1") and not p.work_l1
    return name, {"cycles": cycles} | ({} if tied else terms)


def volkov(p):
    q = lumped(p)
    # Eq. L2: of α instructions α/ILP are waited for, of the loads one in mlp; the others take their λ.
    alone = q.wait_comp / p.ilp + q.pipes_comp * (p.ilp - 1) / p.ilp
    alone += q.waits * q.L_mem + (q.a_mem - q.waits) * q.l_mem + p.work_barrier * p.latency_barrier
    if not q.a_comp + q.a_mem + p.work_barrier:
        return "nothing", {"cycles": 0.0, "latency_of_one_warp": 0.0}
    busy = q.busy
    roofs = {name: 1 / cycles for name, cycles in busy.items() if cycles}
    roofs["issue"] = p.issue_limit / (q.a_comp + q.a_mem + p.work_barrier)
    limits = roofs | {"latency": q.omega / alone if alone else math.inf}  # Eq. L3, warps per cycle
    case = min(limits, key=limits.__getitem__)
    cycles = q.omega / limits[case] * p.waves
    actual = {"cycles": cycles, "latency_of_one_warp": alone, "ridge": alone * min(roofs.values())}
    if all(apart(limit, limits[case]) for name, limit in limits.items() if name != case):
        actual |= {f"{name} term": cycles if name == case else 0.0 for name in [*OWN_PIPES, *limits]}
    return case, actual


def transit(p):
    q = lumped(p)

    def supply(k):  # Eqs. L4, L5
        return min(1 / q.l_mem if q.l_mem else math.inf, k / q.L_mem) / q.a_mem

    def demand(x):  # Eqs. L6, L7
        return min(1 / q.l_comp, x / q.L_comp if q.L_comp else math.inf) / q.a_comp

    if not q.a_mem and not q.a_comp:
        return "nothing", {"cycles": 0.0}
    if not q.a_mem:
        case, throughput, k = "no memory", demand(q.omega), 0.0
    elif not q.a_comp:
        case, throughput, k = "no computation", supply(q.omega), q.omega
    else:
        low, high = 0.0, q.omega  # Eq. L8: supply(k) = demand(ω − k)
        for _ in range(2000):
            middle = (low + high) / 2
            if middle in (low, high):
                break
            low, high = (middle, high) if supply(middle) < demand(q.omega - middle) else (low, middle)
        throughput, k = min(supply(high), demand(q.omega - low)), None
        full = {"compute": 1 / (q.l_comp * q.a_comp), "memory": supply(math.inf)}
        case = min(full, key=full.__getitem__)
        if throughput < full[case] * (1 - 1e-9):
            case, k = "latency", high
    actual = {"cycles": q.omega / throughput * p.waves}
    return case, actual | ({} if k is None else {"warps_in_memory": k})


def hong_kim(p, q, reading):
    """Eqs. 2 to 27. With caches, Mem_LD is the mean over the levels, and what a cache serves takes no DRAM
    bandwidth."""
    e, uncoal, coal, mem_insts = SimpleNamespace(), p.uncoal_insts, q.a_mem - p.uncoal_insts, q.a_mem
    total = q.a_comp + mem_insts
    e.n = q.omega  # Eq. 20
    e.comp_cycles = p.issue_cycles * total  # Eq. 19
    if mem_insts == 0:  # the paper is silent
        e.app = e.comp_cycles * e.n * p.waves
        return "no-memory", e.app, e
    mem_l_uncoal = q.L_mem + (p.transactions_per_uncoal - 1) * p.departure_delay_uncoal_cycles  # Eq. 10
    mem_l_coal = q.L_mem  # Eq. 11
    weight_uncoal = uncoal / mem_insts  # Eq. 13
    weight_coal = coal / mem_insts  # Eq. 14
    e.mem_l = mem_l_uncoal * weight_uncoal + mem_l_coal * weight_coal  # Eq. 12
    delay = (
        p.departure_delay_uncoal_cycles * p.transactions_per_uncoal * weight_uncoal
        + p.departure_delay_coal_cycles * weight_coal
    )  # Eq. 15
    e.mwp_full = e.mem_l / delay  # Eq. 16
    bandwidth_per_warp = p.clock * p.bytes_per_access * q.from_dram / e.mem_l  # Eq. 7
    e.mwp_peak = (
        p.dram_bandwidth / (bandwidth_per_warp * p.active_sms) if bandwidth_per_warp else math.inf
    )  # Eq. 6
    e.mwp = max(1.0, min(e.mwp_full, e.mwp_peak, e.n))  # Eqs. 5, 17; one warp at least
    e.mem_cycles = mem_l_uncoal * uncoal + mem_l_coal * coal  # Eq. 18
    e.cwp_full = (e.mem_cycles + e.comp_cycles) / e.comp_cycles  # Eq. 8
    e.cwp = min(e.cwp_full, e.n)  # Eq. 9
    period = e.comp_cycles / mem_insts  # Eq. 2
    if reading == "printed":
        memory_bound = e.cwp >= e.mwp or e.comp_cycles > e.mem_cycles
    else:  # Sec. 3.2.2, case 5: computation that outlasts memory is Eq. 24
        memory_bound = e.cwp >= e.mwp and not e.comp_cycles > e.mem_cycles
    if e.mwp == e.n and e.cwp == e.n:
        case = "few-warps"
        e.app = (e.mem_cycles + e.comp_cycles + period * (e.mwp - 1)) * p.waves  # Eq. 22
    elif memory_bound:
        case = "memory"
        e.app = (e.mem_cycles * e.n / e.mwp + period * (e.mwp - 1)) * p.waves  # Eq. 23
    else:
        case = "compute"
        e.app = (e.mem_l + e.comp_cycles * e.n) * p.waves  # Eq. 24
    e.sync = delay * (e.mwp - 1) * p.work_barrier * p.resident_blocks * p.waves  # Eq. 26
    e.cpi = e.app / (total * p.warps_per_block * p.resident_blocks * p.waves)  # Eqs. 21, 25
    return case, e.app + e.sync, e  # Eq. 27


def mwp_cwp(p, reading):
    case, cycles, e = hong_kim(p, lumped(p), reading)
    if case == "no-memory":
        return case, {"cycles": cycles, "case": CASES.index(case), "sync term": 0.0}
    warps, mwp = (e.n, e.cwp_full), max(1.0, min(e.mwp_full, e.mwp_peak))
    if not (all(apart(mwp, x) for x in warps) and apart(*warps) and apart(e.comp_cycles, e.mem_cycles)):
        return None, {}
    actual = {"cycles": cycles, "sync term": e.sync, "case": CASES.index(case)}
    binds = min(("N", e.n), ("delay", e.mwp_full), ("bandwidth", e.mwp_peak), key=lambda bound: bound[1])[0]
    longer = "computation" if e.comp_cycles > e.mem_cycles else "memory"
    actual |= {"mwp": e.mwp, "cwp": e.cwp, "cpi": e.cpi}
    return f"{case}, MWP by {binds}, {longer} longer", actual


def mwp_cwp_pipeline(p):
    q = lumped(p)
    if q.a_mem == 0:
        return "no-memory", {"cycles": q.busy_comp * q.omega * p.waves, "case": 0, "memory term": 0.0}
    mwp = q.L_mem / q.l_mem if q.l_mem else math.inf  # Eq. L15
    period = q.ci * q.l_comp  # c_p, Eqs. L21-L25
    cwp = q.L_mem / period + 1 if period else math.inf  # Eq. L16
    if not (apart(q.omega, min(mwp, cwp)) and apart(mwp, cwp)):
        return None, {}
    if q.omega <= min(mwp, cwp):  # Eq. L28
        case, memory = "few-warps", q.a_mem * q.L_mem
        cycles = memory + q.a_comp * q.l_comp + period * (q.omega - 1)
    elif mwp < min(q.omega, cwp):  # Eq. L26
        case, memory = "memory", q.a_mem * q.l_mem * q.omega
        cycles = memory + period * mwp
    else:  # Eq. L27
        assert cwp < min(q.omega, mwp)
        case, memory = "compute", q.L_mem
        cycles = q.a_comp * q.l_comp * q.omega + memory
    actual = {"cycles": cycles * p.waves, "memory term": memory * p.waves}
    return case, actual | {"mwp": mwp, "cwp": cwp, "case": pipeline.CASES.index(case)}


def latency_of_one_warp(p, q):
    """Λ_app, Eq. L2."""
    alone = q.wait_comp / p.ilp + q.pipes_comp * (1 - 1 / p.ilp) + p.work_barrier * p.latency_barrier
    return alone + q.waits * q.L_mem + (q.a_mem - q.waits) * q.l_mem


def mwp_cwp_corrected(p):
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
    mwp = q.L_mem / q.l_mem if q.l_mem else math.inf
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


def wfg_pipeline(p):
    q = lumped(p)
    q.l_instr = 1 / p.issue_limit
    nodes = described(p, q)
    cycles, comp_cycles, between, reached = walk(nodes, q)
    actual = {"cycles": cycles * p.waves, "comp_cycles": comp_cycles, "between_waits": between}
    case = " and ".join(sorted(reached)) if q.a_mem else "no memory"
    return case if q.a_comp else f"{case}, no computation", actual


def warp_run(blocks, barriers, g):
    """CPR of WFG* (λ_mem^instr = 0); a block: how often, computations, ILP, waited loads, other accesses."""
    computation = [c * max(g.l_comp, g.L_comp / (ilp * g.omega)) for _, c, ilp, _, _ in blocks]  # Eq. L30
    cycles = sum(times * item for (times, *_), item in zip(blocks, computation, strict=True))
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


def wfg_corrected(p):
    q = lumped(p)
    times = q.waits if q.waits else 1.0
    loads = 1.0 if q.waits else 0.0
    block = (times, q.a_comp / times, p.ilp, loads, (q.a_mem - q.waits) / times)
    cycles, reached = warp_run([block], p.work_barrier, q)
    case = " and ".join(sorted(reached)) if q.a_mem else "no memory"
    return case, {"cycles": cycles * p.waves}


def wfg(p):
    q = lumped(p)
    times, loads = (q.waits, 1.0) if q.waits else (1.0, 0.0)
    insts = sum(vars(p)[f"work_{name}"] for name in ARITHMETIC) + p.work_mma_warp
    pipe = max(q.tensor, *(vars(p)[f"work_{name}"] * vars(p)[f"cpi_{name}"] for name in ARITHMETIC))
    alone = sum(vars(p)[f"work_{name}"] * vars(p)[f"latency_{name}"] for name in ARITHMETIC)
    alone += q.wait_products
    issue = 1 / p.issue_limit
    computed = max(pipe, insts * issue, alone / (p.ilp * q.omega))  # Eq. 3 of all instructions
    shared = 0.0
    if p.shared_insts:
        conflicts = max(p.work_shared / p.shared_insts, 1.0) - 1.0
        waited = p.shared_insts * (p.latency_shared + conflicts * p.cpi_shared)
        busy = max(p.work_shared * p.cpi_shared, p.shared_insts * p.lsu_cycles)
        shared = max(busy, waited / (p.ilp * q.omega))
    comp = computed + shared + issue * (p.work_barrier + q.a_mem)
    lacking = max(0.0, (q.a_mem * q.l_mem - comp) / q.a_mem) if q.a_mem else 0.0
    transfer = lacking + issue  # Eq. 4
    between = comp / (q.a_mem + p.work_barrier + 1)  # Eq. 5
    exposed = q.L_mem - (q.omega - 1) * between  # Eq. 6
    covered = q.a_mem / times * transfer  # by the load itself and the accesses behind it
    wait = loads * times * max(0.0, exposed - covered)
    warp = computed + shared + issue * p.work_barrier + q.a_mem * transfer + wait
    case = "no memory" if not q.a_mem else "waits" if wait else "hidden"
    case += ", bandwidth" if lacking else ""
    return case, {"cycles": q.omega * p.waves * warp, "between_waits": between}


def kothapalli(p, overlap):
    """Cycles of one thread on computation and on memory, by instruction; then those of an SM."""
    q = lumped(p)
    comp = sum(vars(p)[f"work_{x}"] * vars(p)[f"cpi_{x}"] for x in ARITHMETIC)
    comp += p.other_insts / p.issue_limit + q.tensor
    shared = p.work_shared * p.cpi_shared
    coalesced = (q.L_mem + 16 * p.lsu_cycles / 4) / 16
    mem = (q.a_mem - p.uncoal_insts) * coalesced + p.uncoal_insts * q.L_mem + shared
    actual = {"cycles": overlap(comp, mem) * q.omega * p.waves}
    return "nothing" if not comp + mem else "computes" if comp > mem else "accesses", actual


def gpuperf(p):
    q = lumped(p)
    n = q.a_comp + p.other_insts + q.a_mem + p.work_barrier
    n_m = q.a_mem
    if not n:
        return "nothing", {"cycles": 0.0}
    itilp_max = q.L_comp / p.cpi_fp32
    itilp = min(p.ilp * q.omega, itilp_max) if q.L_comp else 0.0
    pace = q.L_comp / itilp if itilp else p.cpi_fp32  # without latency, at the rate of the pipe
    uncoal = p.uncoal_insts / n_m if n_m else 0.0
    amat = q.L_mem + uncoal * (p.transactions_per_uncoal - 1) * p.departure_delay_uncoal_cycles
    delay = p.departure_delay_uncoal_cycles * p.transactions_per_uncoal * uncoal
    delay += p.departure_delay_coal_cycles * (1 - uncoal) if n_m else 0.0
    mwp, peak = q.omega, math.inf
    if n_m:
        mwp = min(mwp, amat / delay)
        if q.from_dram:
            peak = p.dram_bandwidth / (p.clock * p.bytes_per_access * q.from_dram / amat * p.active_sms)
    mwp, peak = max(1.0, min(mwp, peak)), max(1.0, peak)
    c_c, c_m = n * pace, n_m * amat / p.mlp
    cwp = min((c_m + c_c) / c_c, q.omega)
    runs = q.omega * p.waves
    t_sync = p.work_barrier * p.resident_blocks * p.waves * 64 * q.L_mem * n_m / n
    f_sfu = min(1.0, max(0.0, p.work_sfu / n - p.cpi_fp32 / p.cpi_sfu))
    t_sfu = p.work_sfu * runs * p.cpi_sfu * f_sfu
    t_c = n * runs * pace + t_sync + t_sfu
    itmlp = min(p.mlp * min(max(1, cwp - 1), mwp), peak)
    t_m = n_m * runs * amat / itmlp
    f_o = (q.omega - (1 if cwp <= mwp else 0)) / q.omega
    t_o = min(t_c * f_o, t_m)
    if abs(cwp - mwp) < 1e-9 * mwp and not (cwp == mwp == q.omega):
        return None, {}
    case = "hidden" if t_o == t_m else "memory"
    return ("computes" if not n_m else case), {"cycles": t_c + t_m - t_o, "sfu term": t_sfu, "itmlp": itmlp}


BINDING = ("delay", "bandwidth")
LONGER = [f"MWP by {binds}, computation longer" for binds in ("N", *BINDING)]
PUBLISHED = {"no-memory", *(f"few-warps, MWP by N, {longer} longer" for longer in ("memory", "computation"))}
PUBLISHED |= {f"{case}, MWP by {binds}, memory longer" for case in ("memory", "compute") for binds in BINDING}
PUBLISHED |= {"compute, MWP by N, memory longer"}
BOUNDS = {f"{b}{w}" for b in ("bandwidth", "computation") for w in ("", " and exposed", " and hidden")}
BOUNDS |= {"no memory"}
# Without a wait for bandwidth, only credited cycles hide a load.
WAITS = ("exposed", "exposed, credited", "hidden, credited")
REFERENCES = {  # the cases that have to be reached, and how many times 32 points
    "roofline": (roofline, {*PIPES}, 25),
    "volkov": (volkov, {*PIPES, "issue", "latency", "nothing"}, 25),
    "transit": (transit, {"nothing", "no memory", "no computation", "compute", "memory", "latency"}, 25),
    "mwp-cwp": (partial(mwp_cwp, reading="narrated"), PUBLISHED | {f"compute, {x}" for x in LONGER}, 25),
    "mwp-cwp-printed": (
        partial(mwp_cwp, reading="printed"), PUBLISHED | {f"memory, {x}" for x in LONGER}, 25
    ),
    "mwp-cwp-pipeline": (mwp_cwp_pipeline, {*pipeline.CASES}, 25),
    "mwp-cwp-corrected": (
        mwp_cwp_corrected,
        {"memory", "compute", "latency", "issue", "barrier", "l1", "lsu"}
        | {f"no memory, {item}" for item in ("compute", "latency", "issue", "barrier")},
        25,
    ),
    "wfg-pipeline": (wfg_pipeline, BOUNDS | {f"{case}, no computation" for case in BOUNDS}, 25),
    "wfg-corrected": (
        wfg_corrected,
        {"no memory", "bandwidth", "computation", "bandwidth and hidden"}
        | {f"{bound} and {wait}" for bound in ("bandwidth", "computation") for wait in WAITS}
        | {"bandwidth and exposed"},
        25,
    ),
    "wfg": (wfg, {"no memory", "waits", "waits, bandwidth", "hidden", "hidden, bandwidth"}, 25),
    "kothapalli-max": (partial(kothapalli, overlap=max), {"nothing", "computes", "accesses"}, 10),
    "kothapalli-sum": (partial(kothapalli, overlap=operator.add), {"nothing", "computes", "accesses"}, 10),
    "gpuperf": (gpuperf, {"nothing", "computes", "hidden", "memory"}, 20),
}  # fmt: skip


def test_every_model_has_a_reference():
    others = {x for x in models.CLOSED_FORMS if x == "phase" or "gpumech" in x}  # files of their own
    assert {*REFERENCES} == {*models.CLOSED_FORMS} - others


@pytest.mark.parametrize("name", REFERENCES)
def test_equals_the_paper_in_plain_python(name):
    equals_reference(models.get(name).predict, *REFERENCES[name])


def test_boundaries_of_the_cases_of_mwp_cwp():
    def case(name, mem, comp, delay):
        """Of eight warps of one period, memory `mem` and computation `comp` cycles long."""
        one = dict.fromkeys(("issue_cycles", "load_insts", "sectors", "work_l2", "work_dram"), 1.0)
        launch = point(**one, work_fp32=comp - 1, latency_dram=mem, resident_blocks=8.0,
                       departure_delay_coal_cycles=delay)  # fmt: skip
        return CASES[int(at(models.get(name).predict, launch).details["case"])]

    for name in ("mwp-cwp", "mwp-cwp-printed"):
        assert case(name, 256.0, 64.0, 64.0) == "memory"  # MWP 4, CWP 5
        assert case(name, 256.0, 64.0, 256.0 / 5) == "memory"  # both 5: CWP >= MWP
        assert case(name, 256.0, 64.0, 32.0) == "compute"  # MWP 8, CWP 5
        assert case(name, 448.0, 64.0, 56.0) == "few-warps"  # both 8, exactly
        assert case(name, 64.0, 64.0, 32.0) == "memory"  # both 2, and both last as long
    assert case("mwp-cwp", 60.0, 64.0, 60.0) == "compute"  # MWP 1, CWP 1.9, computation longer
    assert case("mwp-cwp-printed", 60.0, 64.0, 30.0) == "memory"  # MWP 2, CWP 1.9, computation longer


def test_gaps_and_errors_of_the_papers():
    # Gap of the paper: no case of Eqs. L26-L28 has ω > MWP = CWP; Hong & Kim's Eq. 23 has CWP >= MWP.
    prediction = at(pipeline.predict, example(8, cpi_dram=1.5))
    assert float(prediction.details["mwp"]) == float(prediction.details["cwp"]) == 4
    assert pipeline.CASES[int(prediction.details["case"])] == "memory"
    assert float(prediction.cycles) == 2 * 1.5 * 8 + 2 * 1 * 4
    # Known error: Eq. L26 taken literally charges MWP = 200 periods to the one warp there is, 20002 cycles.
    pipes = TwoPipes(comp_insts=100.0, comp_cpi=1.0, mem_insts=1.0, mem_cpi=2.0, mem_latency=400.0)
    single, many = (corrected.bounds(jnp.float64(warps), pipes, jnp.float64(1000)) for warps in (1, 300))
    cycles = {name: float(cycles) for name, cycles in single.items()}
    assert cycles == {"memory": 2 * 1 + 100 * 1, "compute": 500, "latency": 1000}
    np.testing.assert_allclose(300 * many["memory"], 2 * 300 + 100 * 200, rtol=1e-14)
