"""Traces written from counts: what they cannot say is an error."""

from typing import Any

import numpy as np
import pytest

from dse.errors import DseError
from dse.hardware import gpus
from dse.simulator.case.kernel_trace import listing
from dse.types import CLASSES, Kernel, PerClass


def kernel(**work: float) -> Kernel:
    counts: dict[str, Any] = dict.fromkeys(set(Kernel.__dataclass_fields__) - {"work", "phases"}, 1.0)
    return Kernel(work=PerClass(**(dict.fromkeys(CLASSES, 0.0) | work)), **counts)


def test_products_of_matrices_have_no_instruction_there():
    gpu = gpus.load("gtx-280", np.float64).gpu
    assert "FMAD" in listing("k", gpu, kernel(fp32=4.0), 4)
    with pytest.raises(DseError, match=r"^k: mma_fp16: found products of matrices, expected none in a TEG"):
        listing("k", gpu, kernel(fp32=4.0, mma_fp16=2048.0), 4)
