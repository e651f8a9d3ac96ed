"""Roofline, against the largest α λ."""

import numpy as np
import pytest

from dse.models.roofline import predict
from dse.types import CLASSES, TENSOR

PIPES = (*(name for name in CLASSES if name not in TENSOR), "lsu", "tensor")


@pytest.fixture
def reference(lumped):
    def run(p):
        slowest, name = 0.0, PIPES[0]
        for pipe, busy in lumped(p).busy.items():
            if busy > slowest:
                slowest, name = busy, pipe
        cycles = slowest * p.warps_per_block * p.resident_blocks * p.waves
        terms = {f"{pipe} term": cycles if pipe == name else 0.0 for pipe in PIPES}
        # where L1 and shared memory are one and only the latter works, both are as busy: the first takes it
        tied = p.l1_with_shared and name in ("shared", "l1") and not p.work_l1
        return name, {"cycles": cycles} | ({} if tied else terms)

    return run


def test_equals_the_paper_in_plain_python(equals_reference, reference):
    equals_reference(predict, reference, set(PIPES))


def test_the_papers_example_kernel(example, at):
    warps = np.array([1.0, 5, 64])
    prediction = at(predict, example(warps))
    # Lemeire et al., Sec. 2.1: a quarter of a warp per cycle, IPC 1, exactly at the ridge
    np.testing.assert_array_equal(prediction.cycles, 4 * warps)
    assert not prediction.details


@pytest.mark.parametrize("beta", [0.5, 4, 16])
def test_instruction_mix(point, at, beta):
    # Eq. L44 with its misprint mended: min(1/λ1, β/λ2) for β instructions of type 1 to one of type 2.
    p = point(work_fp32=beta, work_sfu=1.0, cpi_fp32=1.0, cpi_sfu=4.0)  # Lemeire et al., Fig. 12
    throughput = beta / float(at(predict, p).cycles)
    np.testing.assert_allclose(throughput, min(1, beta / 4), rtol=1e-14)
