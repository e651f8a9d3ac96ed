"""Kernels whose blocks differ in work, on GPUs of both vendors: counts are those of all blocks."""

from pathlib import Path

import jax
import numpy as np
import pytest

from dse.hardware import gpus
from dse.source.amd import source as amd
from dse.source.amd.compile.source import Built
from dse.source.amd.compile.source import read_source as read_hip
from dse.source.launches import Configuration
from dse.source.nvidia.arguments import as_launched
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import read_source
from dse.source.nvidia.sass.disassemble import disassemble
from dse.source.nvidia.source import executed
from dse.source.profiles import KernelProfile

CODE = """extern "C" __global__ void k(const float* x, float* y, int n)
{{
    int b = blockIdx.x, i = b * blockDim.x + threadIdx.x;
    float sum = 0;
#pragma unroll 1
    for (int trip = 0; trip < {trips}; ++trip) sum += x[{place}];
    if (i < n) y[i] = sum;
}}
"""
BLOCKS, THREADS = 1000, 128
EVENLY = "i + trip * 1024"
# Trips of each block, as CUDA and Python both write them; and where each reads.
KERNELS = {
    "alike": ("20", EVENLY),
    "period 2": ("10 + 90 * (b % 2)", EVENLY),
    "period 64": ("10 + 900 * (b % 64 == 3)", EVENLY),
    "triangle": ("1 + b % 50", EVENLY),
    "one heavy": ("10 + 5000 * (b == 77)", EVENLY),
    "masked": ("20 * (b < 700)", EVENLY),
    "strided": ("20", "threadIdx.x * (b % 2 ? 32 : 1) + trip * 32"),
}


@pytest.fixture(params=["a100_pcie_40gb", "mi250x"])
def profiled(request, tmp_path: Path):
    gpu = jax.tree.map(np.asarray, gpus.load(request.param).gpu)

    def profile(code: str) -> KernelProfile:
        path = tmp_path / "k.cu"
        path.write_text(code)
        wanted = Configuration((), (BLOCKS, 1, 1), (THREADS, 1, 1), (None, None, BLOCKS * THREADS))
        if not int(gpu.gfx):
            cuda = read_source(path, "k")
            made = cuda.compile(80, cuda.settings((), wanted.arguments))
            assert isinstance(made, Compiled)
            return executed(made, disassemble([made.binary])[0], as_launched(made, wanted), gpu)
        hip = read_hip(path, "k")
        built = hip.compile(amd.architecture(gpu, hip), hip.settings((), wanted.arguments))
        assert isinstance(built, Built)
        return amd.executed(built, wanted, gpu, hip)

    return profile


@pytest.mark.parametrize("name", KERNELS)
def test_counts_are_those_of_all_blocks(profiled, name):
    trips, place = KERNELS[name]
    counts = profiled(CODE.format(trips=trips, place=place)).counts
    mean = sum(eval(trips, {"b": b}) for b in range(BLOCKS)) / BLOCKS
    assert counts.total("global load", "requests") / counts.warps == pytest.approx(mean, rel=0.002)
    assert counts.spread < 0.02 or name == "strided"
    if name == "strided":  # half of the blocks have a sector of each thread, the others one of eight
        sectors = counts.total("global load", "sectors") / 20
        assert abs(sectors / (THREADS * (1 + 1 / 8) / 2) - 1) < 4 * counts.spread
