"""Transit, against supply and demand solved by bisection."""

import math

import numpy as np
import pytest

from dse.models.transit import predict
from dse.models.volkov import predict as volkov


@pytest.fixture
def reference(lumped):
    def run(p):
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
        found = {"cycles": q.omega / throughput * p.waves}
        return case, found | ({} if k is None else {"warps_in_memory": k})

    return run


def test_equals_supply_and_demand(equals_reference, reference):
    cases = {"nothing", "no memory", "no computation", "compute", "memory", "latency"}
    equals_reference(predict, reference, cases)


def test_the_papers_example_kernel(example, at):
    # Eq. L11 with ω = 5 (Lemeire et al., the figure of Sec. 2.2.1): k = 5 / (1 + 2 · 4/6)
    prediction = at(predict, example(5))
    np.testing.assert_allclose(prediction.details["warps_in_memory"], 15 / 7, rtol=1e-14)
    np.testing.assert_allclose(prediction.cycles, 4 * 4 + 2 * 6, rtol=1e-14)  # Eqs. L12-L14


def test_is_volkov_without_instruction_level_parallelism(example, at):
    p = example(np.arange(1.0, 65), ilp=1.0)
    np.testing.assert_allclose(at(predict, p).cycles, at(volkov, p).cycles, rtol=1e-14)
