"""Triton kernels for AMD GPUs: counted work is what the sizes demand, on each generation's matrix cores."""

from dataclasses import replace
from math import prod

import jax
import numpy as np
import pytest

from dse import kernels
from dse.hardware import gpus
from dse.source.amd.source import AMD
from dse.source.cache import Cache
from dse.source.contract import Failure
from dse.source.launches import configurations

pytest.importorskip("triton")
SIZES = {"M": 256, "N": 512, "K": 1024}
TARGETS = {"gfx90a": "mi250x", "gfx942": "mi300x", "gfx950": "mi300x", "gfx1100": "radeon_pro_w7800"}


SLOW = [pytest.param(target, marks=pytest.mark.slow) for target in TARGETS if target != "gfx942"]


@pytest.mark.parametrize("target", ["gfx942", *SLOW])
def test_a_product_multiplies_and_loads_what_its_sizes_demand(tmp_path, target):
    kernel = kernels.load("triton_matmul")
    gpu = jax.tree.map(np.asarray, gpus.load(TARGETS[target]).gpu)
    gpu = replace(gpu, gfx=np.asarray(int(target[3:], 16)))
    space = kernel.space.with_values({"BLOCK_M": [64], "BLOCK_N": [128], "BLOCK_K": [64], "num_stages": [2]})
    parameters = space.configurations(SIZES)
    wanted = configurations(kernel, parameters, kernel.sizes(**SIZES), gpu)
    source = AMD.source_of(kernel)
    [profile, *_] = AMD.characterise_all(
        source, AMD.architecture(gpu, source), wanted[:1], gpu, Cache(tmp_path / "cache")
    )
    assert not isinstance(profile, Failure), profile
    counts = profile.counts
    assert prod(counts.block) == int(parameters["num_warps"][0]) * int(gpu.limits.warp_size)
    multiplied = sum(phase.passes * phase.tensor.get("mma_fp16", 0.0) for phase in counts.phases)
    assert multiplied * counts.blocks == pytest.approx(prod(SIZES.values()))

    def moved(kind: str) -> float:
        accesses = [(phase.passes, phase.accesses[kind]) for phase in counts.phases if kind in phase.accesses]
        return sum(passes * access.bytes for passes, access in accesses) * counts.blocks

    m, n, k = SIZES.values()
    assert moved("global load") == pytest.approx(2 * k * (m * n / 128 + m * n / 64))
    assert moved("global store") == pytest.approx(2 * m * n)
