"""Volkov, against Eqs. L2 and L3 in plain Python."""

import numpy as np
from points import apart, equals_reference, lumped

from dse.models.volkov import predict
from dse.types import CLASSES, TENSOR

PIPES = tuple(name for name in CLASSES if name not in TENSOR)


def reference(p):
    q = lumped(p)
    # Eq. L2: of α instructions α/ILP are waited for, of the loads one in mlp; the others take their λ.
    alone = q.wait_comp / p.ilp + q.pipes_comp * (p.ilp - 1) / p.ilp
    alone += q.waits * q.L_mem + (q.a_mem - q.waits) * q.l_mem + p.work_barrier * p.latency_barrier
    if not q.a_comp + q.a_mem + p.work_barrier:
        return "nothing", {"cycles": 0.0, "latency_of_one_warp": 0.0}
    busy = q.busy
    roofs = {name: 1 / cycles for name, cycles in busy.items() if cycles}
    roofs["issue"] = p.issue_limit / (q.a_comp + q.a_mem + p.work_barrier)
    limits = roofs | {"latency": q.omega / alone if alone else np.inf}  # Eq. L3, warps per cycle
    case = min(limits, key=limits.__getitem__)
    cycles = q.omega / limits[case] * p.waves
    actual = {"cycles": cycles, "latency_of_one_warp": alone, "ridge": alone * min(roofs.values())}
    if all(apart(limit, limits[case]) for name, limit in limits.items() if name != case):
        actual |= {f"{name} term": cycles if name == case else 0.0 for name in [*PIPES, *limits]}
    return case, actual


def test_equals_the_paper_in_plain_python():
    equals_reference(predict, reference, {*PIPES, "lsu", "tensor", "issue", "latency", "nothing"})
