"""The Triton kernels that come with the package: each is compiled, executed and ranked, for two GPUs."""

import json

import pytest

from dse import kernels
from dse.hardware import gpus
from dse.source.contract import Failure
from dse.source.launches import configurations
from dse.source.nvidia.source import source_of

pytest.importorskip("triton")

FEW = {
    "triton_matmul": ("BLOCK_N=128", "BLOCK_K=64", "num_stages=3", "num_warps=4", "M=1024", "N=1024"),
    "triton_matmul_tma": ("BLOCK_N=128", "BLOCK_K=64", "num_stages=3", "num_warps=4", "M=1024", "N=1024"),
    "triton_softmax": ("ROWS=2",),
    "triton_layer_norm": ("BLOCK=1024",),
    "triton_attention": ("BLOCK_N=64", "num_stages=3", "num_warps=4", "length=1024"),
    "triton_moe": ("BLOCK_N=64", "BLOCK_K=32", "num_stages=3", "num_warps=4", "token_count=1024"),
}


def test_these_are_all():
    assert [name for name in kernels.names() if name.startswith("triton_")] == sorted(FEW)


# One by pointers and one of boxes always; the others take a second or two each.
QUICK = {("triton_softmax", "a100-pcie-40gb"), ("triton_matmul_tma", "h100-sxm")}


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        pytest.param(name, gpu, marks=() if (name, gpu) in QUICK else pytest.mark.slow)
        for name in FEW
        for gpu in ("a100-pcie-40gb", "h100-sxm")
    ],
)
def test_a_few_configurations_are_ranked(name, gpu, run_dse, monkeypatch, tmp_path):
    monkeypatch.setenv("DSE_CACHE", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    fixed = [word for setting in FEW[name] for word in ("--set", setting)]
    ran = run_dse("rank", name, "-g", gpu, "--json", "--top", "0", *fixed)
    assert ran.code == 0
    assert all(line.startswith("assumed: ") for line in ran.err.splitlines())
    rows = json.loads(ran.out)
    assert len(rows) >= 2
    assert all(row["limited_by"] != "not executed" for row in rows)
    assert 1e-6 < rows[0]["time_s"] < 1e-3
    assert rows[0]["time_s"] <= rows[-1]["time_s"]


def test_a_mixture_of_experts_has_work_for_every_tile():
    kernel, gpu = kernels.load("triton_moe"), gpus.load("h100-sxm").gpu
    sizes = kernel.sizes(token_count=96, expert_count=8, top_k=2)
    columns = {name: values[:1] for name, values in kernel.space.configurations(sizes).items()}
    [found] = configurations(kernel, columns, sizes, gpu)
    from dse.source.nvidia.arguments import _contents

    tokens, experts, padded = map(_contents, found.arguments[3:6])
    block = int(columns["BLOCK_M"][0])
    assert block == 16
    # 24 pairs an expert in tiles of 16: two tiles, of which the second is half pads.
    assert padded.tolist() == [256]
    assert experts.tolist() == [tile // 2 for tile in range(16)]
    assert sorted(tokens[tokens < 192].tolist()) == list(range(192))
    assert [int((tile < 192).sum()) for tile in tokens.reshape(16, 16)] == [16, 8] * 8


def test_one_that_does_not_fit_is_told(tmp_path):
    kernel = kernels.load("triton_matmul")
    source = source_of(kernel)
    assert isinstance(source.compile(80, source.settings((("BLOCK_M", 100), ("BLOCK_N", 128), ("BLOCK_K", 64),
        ("GROUP_M", 8)), (None, None, None, 1024, 1024, 1024, 1024, 1024, 1024))), Failure)  # fmt: skip
