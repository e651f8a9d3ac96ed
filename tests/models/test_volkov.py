"""Volkov, against Eqs. L2 and L3 in plain Python."""

import numpy as np
import pytest

from dse.models.volkov import predict
from dse.types import CLASSES, TENSOR

PIPES = tuple(name for name in CLASSES if name not in TENSOR)


@pytest.fixture
def reference(lumped, apart):
    def run(p):
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
        found = {"cycles": cycles, "latency_of_one_warp": alone, "ridge": alone * min(roofs.values())}
        if all(apart(limit, limits[case]) for name, limit in limits.items() if name != case):
            found |= {f"{name} term": cycles if name == case else 0.0 for name in [*PIPES, *limits]}
        return case, found

    return run


def test_equals_the_paper_in_plain_python(equals_reference, reference):
    equals_reference(predict, reference, {*PIPES, "lsu", "tensor", "issue", "latency", "nothing"})


def test_the_papers_example_kernel(example, at):
    prediction = at(predict, example(np.array([1.0, 6, 7, 8])))
    np.testing.assert_allclose(prediction.cycles, [25, 25, 28, 32], rtol=1e-14)
    # Lemeire et al., Sec. 2.2: 3·4 + 1 + 2·6, one of the four computations being independent
    np.testing.assert_allclose(prediction.details["latency_of_one_warp"], 25, rtol=1e-14)
    np.testing.assert_allclose(prediction.details["ridge"], 6.25, rtol=1e-14)
    # A pipe is full from 7 warps on. Computation and memory are equally busy: the first named takes it.
    bound = [list(prediction.terms)[index] for index in prediction.bottleneck.tolist()]
    assert bound == ["latency", "latency", "fp32", "fp32"]


@pytest.mark.parametrize("beta", [0.5, 2, 4, 16])
def test_instruction_mix_under_an_issue_limit(point, at, beta):
    # Eq. L45, λ1 = 1, λ2 = 4 and IL = 1 as in Lemeire et al., Fig. 12
    p = point(work_fp32=beta, work_sfu=1.0, cpi_fp32=1.0, cpi_sfu=4.0, issue_limit=1.0)
    throughput = beta / float(at(predict, p).cycles)
    np.testing.assert_allclose(throughput, min(1, beta / 4, beta / (beta + 1)), rtol=1e-14)
