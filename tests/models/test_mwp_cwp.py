"""MWP-CWP as published, both readings of Eq. 23, against the paper in plain Python."""

import math
from types import SimpleNamespace

import pytest
from points import apart, at, equals_reference, lumped, point

from dse.models import mwp_cwp, mwp_cwp_printed

CASES = mwp_cwp.CASES
READINGS = {"narrated": mwp_cwp, "printed": mwp_cwp_printed}


def hong_kim(i, reading):
    """Eqs. 2 to 27 for the inputs of their Table 1; `i` also has `share`, of an access that reaches DRAM."""
    e = SimpleNamespace()
    total = i.comp_insts + i.uncoal + i.coal
    mem_insts = i.uncoal + i.coal
    e.n = i.resident_blocks * i.warps_per_block  # Eq. 20
    e.comp_cycles = i.issue_cycles * total  # Eq. 19
    if mem_insts == 0:  # the paper is silent
        e.app = e.comp_cycles * e.n * i.rep
        return "no-memory", e.app, e
    mem_l_uncoal = i.mem_ld + (i.per_mw - 1) * i.delay_uncoal  # Eq. 10
    mem_l_coal = i.mem_ld  # Eq. 11
    weight_uncoal = i.uncoal / (i.uncoal + i.coal)  # Eq. 13
    weight_coal = i.coal / (i.uncoal + i.coal)  # Eq. 14
    e.mem_l = mem_l_uncoal * weight_uncoal + mem_l_coal * weight_coal  # Eq. 12
    delay = i.delay_uncoal * i.per_mw * weight_uncoal + i.delay_coal * weight_coal  # Eq. 15
    e.mwp_full = e.mem_l / delay  # Eq. 16
    bandwidth_per_warp = i.clock * i.bytes_per_warp * i.share / e.mem_l  # Eq. 7
    e.mwp_peak = i.bandwidth / (bandwidth_per_warp * i.sms) if bandwidth_per_warp else math.inf  # Eq. 6
    e.mwp = max(1.0, min(e.mwp_full, e.mwp_peak, e.n))  # Eqs. 5, 17; one warp at least
    e.mem_cycles = mem_l_uncoal * i.uncoal + mem_l_coal * i.coal  # Eq. 18
    e.cwp_full = (e.mem_cycles + e.comp_cycles) / e.comp_cycles  # Eq. 8
    e.cwp = min(e.cwp_full, e.n)  # Eq. 9
    period = e.comp_cycles / mem_insts  # Eq. 2
    if reading == "printed":
        memory_bound = e.cwp >= e.mwp or e.comp_cycles > e.mem_cycles
    else:  # Sec. 3.2.2, case 5: computation that outlasts memory is Eq. 24
        memory_bound = e.cwp >= e.mwp and not e.comp_cycles > e.mem_cycles
    if e.mwp == e.n and e.cwp == e.n:
        case = "few-warps"
        e.app = (e.mem_cycles + e.comp_cycles + period * (e.mwp - 1)) * i.rep  # Eq. 22
    elif memory_bound:
        case = "memory"
        e.app = (e.mem_cycles * e.n / e.mwp + period * (e.mwp - 1)) * i.rep  # Eq. 23
    else:
        case = "compute"
        e.app = (e.mem_l + e.comp_cycles * e.n) * i.rep  # Eq. 24
    e.sync = delay * (e.mwp - 1) * i.barriers * i.resident_blocks * i.rep  # Eq. 26
    e.cpi = e.app / (total * i.warps_per_block * i.resident_blocks * i.rep)  # Eqs. 21, 25
    return case, e.app + e.sync, e  # Eq. 27


def inputs(p, q):
    """The paper's inputs. With caches, Mem_LD is the mean over the levels, and what a cache serves takes
    no DRAM bandwidth."""
    return SimpleNamespace(
        mem_ld=q.L_mem,
        share=q.from_dram,
        delay_uncoal=p.departure_delay_uncoal_cycles,
        delay_coal=p.departure_delay_coal_cycles,
        per_mw=p.transactions_per_uncoal,
        uncoal=p.uncoal_insts,
        coal=q.a_mem - p.uncoal_insts,
        comp_insts=q.a_comp,
        barriers=p.work_barrier,
        issue_cycles=p.issue_cycles,
        clock=p.clock,
        bandwidth=p.dram_bandwidth,
        bytes_per_warp=p.bytes_per_access,
        sms=p.active_sms,
        warps_per_block=p.warps_per_block,
        resident_blocks=p.resident_blocks,
        rep=p.waves,
    )


@pytest.mark.parametrize("reading", READINGS)
def test_equals_the_paper_in_plain_python(reading):
    def reference(p):
        case, cycles, e = hong_kim(inputs(p, lumped(p)), reading)
        if case == "no-memory":
            return case, {"cycles": cycles, "case": CASES.index(case), "sync term": 0.0}
        warps, mwp = (e.n, e.cwp_full), max(1.0, min(e.mwp_full, e.mwp_peak))
        if not (all(apart(mwp, x) for x in warps) and apart(*warps) and apart(e.comp_cycles, e.mem_cycles)):
            return None, {}
        actual = {"cycles": cycles, "sync term": e.sync, "case": CASES.index(case)}
        binds = min(("N", e.n), ("delay", e.mwp_full), ("bandwidth", e.mwp_peak), key=lambda bound: bound[1])[
            0
        ]
        longer = "computation" if e.comp_cycles > e.mem_cycles else "memory"
        actual |= {"mwp": e.mwp, "cwp": e.cwp, "cpi": e.cpi}
        return f"{case}, MWP by {binds}, {longer} longer", actual

    cases = {
        "no-memory",
        "few-warps, MWP by N, memory longer",
        "few-warps, MWP by N, computation longer",
        "memory, MWP by delay, memory longer",
        "memory, MWP by bandwidth, memory longer",
        "compute, MWP by N, memory longer",
        "compute, MWP by delay, memory longer",
        "compute, MWP by bandwidth, memory longer",
    }
    long = [f"MWP by {binds}, computation longer" for binds in ("N", "delay", "bandwidth")]
    cases |= {f"{'memory' if reading == 'printed' else 'compute'}, {binds}" for binds in long}
    equals_reference(READINGS[reading].predict, reference, cases)


def periods(mem, comp, delay, loads=1.0):
    """Eight warps of `loads` periods, memory `mem` and computation `comp` cycles long."""
    return point(
        issue_cycles=1.0,
        work_fp32=(comp - 1) * loads,
        load_insts=loads,
        sectors=loads,
        work_l2=loads,
        work_dram=loads,
        latency_dram=mem,
        departure_delay_coal_cycles=delay,
        resident_blocks=8.0,
    )


def test_boundaries_of_the_cases():
    def case(model, mem, comp, delay):
        return CASES[int(at(model.predict, periods(mem, comp, delay)).details["case"])]

    for model in READINGS.values():
        assert case(model, 256.0, 64.0, 64.0) == "memory"  # MWP 4, CWP 5
        assert case(model, 256.0, 64.0, 256.0 / 5) == "memory"  # both 5: CWP >= MWP
        assert case(model, 256.0, 64.0, 32.0) == "compute"  # MWP 8, CWP 5
        assert case(model, 448.0, 64.0, 56.0) == "few-warps"  # both 8, exactly
        assert case(model, 64.0, 64.0, 32.0) == "memory"  # both 2, and both last as long
    assert case(mwp_cwp, 60.0, 64.0, 60.0) == "compute"  # MWP 1, CWP 1.9, computation longer
    assert case(mwp_cwp_printed, 60.0, 64.0, 30.0) == "memory"  # MWP 2, CWP 1.9, computation longer
