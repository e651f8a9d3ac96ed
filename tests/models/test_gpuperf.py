"""GPUPerf, against its equations in plain Python."""

import math

from points import equals_reference, lumped

from dse.models.gpuperf import predict


def reference(p):
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
    return ("computes" if not n_m else case), {
        "cycles": t_c + t_m - t_o,
        "sfu term": t_sfu,
        "itmlp": itmlp,
    }


def test_equals_the_equations_in_plain_python():
    equals_reference(predict, reference, {"nothing", "computes", "hidden", "memory"}, examples=20)
