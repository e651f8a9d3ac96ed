"""MWP-CWP in the Pipeline paper's notation, against Eqs. L15 to L28 in plain Python."""

import math

from points import apart, at, equals_reference, example, lumped

from dse.models.mwp_cwp_pipeline import CASES, predict


def reference(p):
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
    return case, actual | {"mwp": mwp, "cwp": cwp, "case": CASES.index(case)}


def test_equals_the_paper_in_plain_python():
    equals_reference(predict, reference, set(CASES))


def test_mwp_equal_to_cwp_is_memory_bound():
    # Gap of the paper: no case of Eqs. L26-L28 has ω > MWP = CWP; Hong & Kim's Eq. 23 has CWP >= MWP.
    prediction = at(predict, example(8, cpi_dram=1.5))
    assert float(prediction.details["mwp"]) == float(prediction.details["cwp"]) == 4
    assert CASES[int(prediction.details["case"])] == "memory"
    assert float(prediction.cycles) == 2 * 1.5 * 8 + 2 * 1 * 4
