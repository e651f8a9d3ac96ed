"""Arithmetic on pairs: peak rates as NVIDIA's white papers and data sheets print them."""

import numpy as np
import pytest

from dse.hardware import gpus
from dse.hardware.pairs import fp32_units


@pytest.mark.parametrize(
    ("name", "pipe", "tflops"),
    [
        ("rtx-2080-ti", "fp16", 26.9),
        ("a100", "fp16", 78.0),
        ("rtx-3090", "fp16", 35.6),
        ("h100-sxm", "fp16", 133.8),
        ("rtx-4090", "fp16", 82.6),
        ("rtx-5090", "fp16", 104.8),
        ("b200", "fp32x2", 75.0),  # that of single floats: HGX B200, 600 of eight
    ],
)
def test_peak_rate_of_pairs(name, pipe, tflops):
    gpu = gpus.load(name, np.float64).gpu
    cycles = float(gpu.cpi.fp32) * fp32_units(pipe, int(gpu.compute_capability))
    of_instruction = 2 * 2 * 32  # a multiply-add of two values in 32 threads
    assert of_instruction / cycles * float(gpu.sm_count * gpu.clock) / 1e12 == pytest.approx(tflops, rel=0.01)
