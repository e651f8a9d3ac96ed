"""Tables for vLLM and SGLang: looked up and loaded by their rules."""

import pytest

from dse.bridges import sglang, vllm
from dse.bridges.tables import BestConfigurations
from dse.explore.matrix.table import Kernel
from dse.models.matrix.configuration import PARAMETERS

EXPERTS = {"E": 256, "N": 512, "K": 7168, "topk": 8}


def table(kernel: Kernel, device: str, *rows: dict) -> BestConfigurations:
    return BestConfigurations(kernel.name, device, ["M"], PARAMETERS, [[row] for row in rows], kernel, device)


def vllm_name(experts: int, columns: int, device: str, dtype: str | None, block: list[int] | None) -> str:
    """The name that vLLM 0.33.0 builds, written after its rules."""
    device = device.replace(" ", "_")
    if "H200" in device.split("_"):
        device = "NVIDIA_H200"
    parts = [f"E={experts}", f"N={columns}", f"device_name={device}"]
    parts += [f"dtype={dtype}"] * bool(dtype) + [f"block_shape={block}".replace(" ", "")] * bool(block)
    return ",".join(parts) + ".json"


@pytest.mark.parametrize(
    ("dtype", "block", "key"),
    [("bf16", None, None), ("fp8_w8a8", (128, 128), "fp8_w8a8"), ("int8_w8a16", None, "int8_w8a16")],
)
@pytest.mark.parametrize("device", ["NVIDIA B200", "NVIDIA H200 NVL", "NVIDIA GeForce RTX 4090"])
def test_vllm_finds_the_file_of_experts(dtype, block, key, device):
    name = vllm.file_name(table(Kernel("moe", EXPERTS, dtype, block), device))
    assert name == vllm_name(256, 512, device, key, list(block) if block else None)


def test_names_of_the_others():
    # Names of files that SGLang 0.5.23 and vLLM 0.33.0 come with
    layer = table(Kernel("moe", {**EXPERTS, "N": 256}, "fp8_w8a8", (128, 128)), "NVIDIA H200")
    product = table(Kernel("w8a8", {"N": 7168, "K": 2048}, "fp8_w8a8", (128, 128)), "NVIDIA H200")
    names = [sglang.file_name(layer), vllm.file_name(product), sglang.file_name(product)]
    device = "device_name=NVIDIA_H200,dtype=fp8_w8a8"
    assert names == [
        f"E=256,N=256,{device},block_shape=[128, 128].json",
        f"N=7168,K=2048,{device},block_shape=[128,128].json",
        f"N=7168,K=2048,{device},block_shape=[128, 128].json",
    ]
