"""Shipped kernels with source are launched as described, and do what their sizes demand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dse import kernels
from dse.hardware import gpus
from dse.kernels.description import evaluated_names
from dse.source.cache import Cache
from dse.source.kernel import SourceKernel
from dse.source.launches import configurations
from dse.source.nvidia.arguments import arguments_of
from dse.source.profiles import KernelProfile
from dse.source.toolchain import toolchain

KERNELS = {name: kernels.load(name) for name in kernels.names()}
WITH_SOURCE = [name for name, kernel in KERNELS.items() if kernel.build is not None]
CUDA = [name for name in WITH_SOURCE if KERNELS[name].described]
A100, H100 = "a100-pcie-40gb", "h100-sxm"


def profile(name: str, gpu: Any, cache: Path, sizes: dict[str, int], **values: int) -> KernelProfile:
    """Counts of the first configuration with these values."""
    kernel = KERNELS[name]
    kernel = replace(kernel, space=kernel.space.with_values({key: (value,) for key, value in values.items()}))
    columns = kernel.space.configurations(kernel.sizes(**sizes))
    source = SourceKernel(kernel, None, Cache(cache / "cache"), 1, toolchain)
    [made] = source.read({key: column[:1] for key, column in columns.items()}, gpu, sizes)
    assert isinstance(made, KernelProfile), made
    return made


@pytest.mark.parametrize("name", CUDA)
def test_launches_are_as_described(name: str):
    kernel, gpu = KERNELS[name], gpus.load(A100).gpu
    columns = {key: values[::7] for key, values in kernel.space.configurations(kernel.sizes()).items()}
    launched = configurations(kernel, columns, kernel.sizes(), gpu)
    described = evaluated_names(kernel, columns, kernel.sizes(), gpu)
    for field, shape in (("threads", "block"), ("blocks", "grid")):
        products = [np.prod(getattr(item, shape)) for item in launched]
        np.testing.assert_array_equal(products, np.broadcast_to(described[field], len(launched)))


# For AMD GPUs, tests/source/amd/compile/test_triton.py holds all of them against their sizes.
@pytest.mark.slow
@pytest.mark.parametrize(("card", "name"), [(A100, "triton_matmul"), (H100, "triton_matmul_tma")])
def test_a_product_multiplies_and_moves_what_its_sizes_demand(tmp_path, monkeypatch, name, card):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    pytest.importorskip("triton")
    sizes = {"M": 256, "N": 512, "K": 1024}
    selected = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "num_stages": 2, "num_warps": 4}
    counts = profile(name, gpus.load(card).gpu, tmp_path, sizes, **selected).counts
    m, n, k = sizes.values()
    multiplied = sum(phase.passes * phase.tensor.get("mma_fp16", 0.0) for phase in counts.phases)
    assert multiplied * counts.blocks == pytest.approx(m * n * k)
    loaded, stored = (counts.total(kind, "bytes") * counts.blocks for kind in ("global load", "global store"))
    assert loaded == pytest.approx(2 * k * (m * n / 128 + m * n / 64))
    assert stored == pytest.approx(2 * m * n)


def test_a_mixture_of_experts_has_work_for_every_tile():
    kernel, gpu = KERNELS["triton_moe"], gpus.load(H100).gpu
    sizes = kernel.sizes(token_count=96, expert_count=8, top_k=2)
    columns = {name: values[:1] for name, values in kernel.space.configurations(sizes).items()}
    [actual] = configurations(kernel, columns, sizes, gpu)
    tokens, experts, padded = arguments_of(kernel.name, [8, 8, 8], actual.arguments[3:6])
    assert int(columns["BLOCK_M"][0]) == 16
    # 24 pairs an expert in tiles of 16: two tiles, of which the second is half pads.
    assert padded.tolist() == [256]
    assert experts.tolist() == [tile // 2 for tile in range(16)]
    assert sorted(tokens[tokens < 192].tolist()) == list(range(192))
    assert [int((tile < 192).sum()) for tile in tokens.reshape(16, 16)] == [16, 8] * 8
