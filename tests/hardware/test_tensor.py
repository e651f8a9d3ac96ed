"""The tensor pipe: what the makers and papers say of its cycles, and products that a GPU cannot do."""

import numpy as np
import pytest

from dse.hardware import gpus, occupancy
from dse.hardware.tensor import HEAT, LACKS, heat, lacking, tensor_cycles
from dse.types import CLASSES, TENSOR, PerClass, Resources


def work(**given: float) -> PerClass:
    return PerClass(**(dict.fromkeys(CLASSES, 0.0) | given))


@pytest.fixture(scope="module")
def gpu():
    names = ("a100", "h100-sxm", "h20", "l20", "t4", "gtx-1060", "rtx-4090")
    files = {name: gpus.load(name, np.float64) for name in names}
    return lambda name: files[name].gpu


def test_registers_feed_hopper_more_slowly_and_geforces_take_twice_as_long_for_fp32_sums(gpu):
    out_of_shared = float(tensor_cycles(gpu("h100-sxm"), work(mma_fp16=64 * 256 * 16.0)))
    assert out_of_shared == pytest.approx(128, rel=1e-5)  # Luo et al. 2024: latency of m64n256k16
    out_of_registers = float(tensor_cycles(gpu("h100-sxm"), work(mma_fp16=64 * 256 * 16.0, mma_warp=128.0)))
    assert out_of_shared / out_of_registers == pytest.approx(0.629, rel=1e-5)
    full, half = (
        float(tensor_cycles(gpu("rtx-4090"), work(**{kind: 512.0}))) for kind in ("mma_fp16_fp16", "mma_fp16")
    )
    assert (full, half) == (pytest.approx(1, rel=1e-5), pytest.approx(2, rel=1e-5))


def test_power_lowers_the_clock_of_tensor_cores_at_the_full_rate_of_their_architecture_alone(gpu):
    """cuBLAS reaches 0.73 of an A100's peak, 0.96 of an L20's, 0.99 of an RTX 4090's with sums in fp32."""
    full = {"a100": "mma_fp16", "h100-sxm": "mma_fp8", "t4": "mma_fp16", "rtx-4090": "mma_fp16_fp16"}
    cut = {"a100": "mma_fp64", "h20": "mma_fp8", "l20": "mma_fp16", "rtx-4090": "mma_fp16"}
    assert [float(heat(gpu(name), kind)) for name, kind in full.items()] == [pytest.approx(HEAT)] * 4
    assert [float(heat(gpu(name), kind)) for name, kind in cut.items()] == [pytest.approx(0, abs=0.01)] * 4


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("a100", {"mma_fp16": 1.0, "mma_warp": 1.0}, set()),
        ("a100", {"mma_fp8": 1.0, "mma_warp": 1.0}, {"mma_fp8"}),
        ("t4", {"mma_tf32": 1.0, "mma_fp64": 2.0, "mma_warp": 1.0}, {"mma_tf32", "mma_fp64"}),
        ("gtx-1060", {"mma_fp16": 1.0, "mma_warp": 1.0}, {"mma_fp16", "mma_warp"}),
        ("gtx-1060", {}, set()),
    ],
)
def test_what_a_gpu_lacks(gpu, name, given, found):
    assert {kind for kind, lacks in lacking(gpu(name), work(**given)).items() if lacks} == found
    asked = Resources(threads=128, blocks=100, registers=32, shared_bytes=0)
    _, code = occupancy.launch(gpu(name), asked, work(**given))
    assert bool(occupancy.possible(code)) == (not found)
    if found:  # the first reason
        assert occupancy.LIMITERS[int(code)] == LACKS[next(kind for kind in TENSOR if kind in found)]
        too_many = Resources(threads=2048, blocks=100, registers=32, shared_bytes=0)
        _, code = occupancy.launch(gpu(name), too_many, work(**given))
        assert occupancy.LIMITERS[int(code)] == "too many threads in a block"  # said first
