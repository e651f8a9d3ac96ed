"""Transit, against supply and demand solved by bisection."""

import math

from points import equals_reference, lumped

from dse.models.transit import predict


def reference(p):
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


def test_equals_supply_and_demand():
    cases = {"nothing", "no memory", "no computation", "compute", "memory", "latency"}
    equals_reference(predict, reference, cases)
