"""Tables for vLLM and SGLang: looked up and loaded by their rules."""

import json
from pathlib import Path

import pytest

from dse.errors import DseError
from dse.explore.matrix.table import Kernel, best, text
from dse.hardware import gpus
from dse.models.matrix.configuration import PARAMETERS, space

H20 = gpus.load("h20")
EXPERTS = {"E": 256, "N": 512, "K": 7168, "topk": 8}


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
def test_vllm_finds_the_file_of_experts(
    dtype: str, block: tuple[int, int] | None, key: str | None, device: str
):
    name = Kernel("moe", EXPERTS, dtype, block).file_name("vllm", device)
    assert name == vllm_name(256, 512, device, key, list(block) if block else None)


def test_names_of_the_others():
    # Names of files that SGLang 0.5.23 and vLLM 0.33.0 come with
    layer = Kernel("moe", {**EXPERTS, "N": 256}, "fp8_w8a8", (128, 128))
    assert layer.file_name("sglang", "NVIDIA H200") == (
        "E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"
    )
    product = Kernel("w8a8", {"N": 7168, "K": 2048}, "fp8_w8a8", (128, 128))
    assert product.file_name("vllm", "NVIDIA H200") == (
        "N=7168,K=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json"
    )
    assert product.file_name("sglang", "NVIDIA H200") == (
        "N=7168,K=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json"
    )


def test_what_is_loaded_is_the_best_of_the_tuners_space(tmp_path: Path):
    kernel = Kernel("moe", EXPERTS, "fp8_w8a8", (128, 128))
    rows = best(H20, kernel, [1, 64, 4096])
    (tmp_path / kernel.file_name("vllm", H20.name)).write_text(text(rows))
    found = json.loads((tmp_path / vllm_name(256, 512, "NVIDIA H20", "fp8_w8a8", [128, 128])).read_text())
    configurations = {int(tokens): values for tokens, values in found.items()}  # as vLLM reads it
    assert sorted(configurations) == [1, 64, 4096]
    tried = {tuple(row) for row in space("moe", (128, 128)).tolist()}
    for values in configurations.values():
        assert list(values) == list(PARAMETERS)
        assert tuple(values.values()) in tried
    assert rows[0]["time_s"] < rows[1]["time_s"] < rows[2]["time_s"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("mmoe", EXPERTS), "kernel: found 'mmoe', expected one of moe, w8a8"),
        (("moe", {"E": 8}), "values: N: missing, expected E, N, K, topk"),
        (("moe", {**EXPERTS, "M": 1}), "values: M: unknown, expected E, N, K, topk"),
        (("moe", {**EXPERTS, "K": 0}), "values: K: found 0, expected a whole number of at least 1"),
        (("moe", EXPERTS, "fp4"), "dtype: found 'fp4', expected one of bf16"),
        (
            ("moe", EXPERTS, "bf16", (128, 128)),
            "dtype: found 'bf16' with scales of blocks, expected one of fp8",
        ),
        (
            ("w8a8", {"N": 64, "K": 64}, "fp8_w8a8"),
            "scale_block: missing, expected the block of a scale, as 128x128",
        ),
    ],
)
def test_mistakes_are_told(given: tuple, line: str):
    with pytest.raises(DseError, match=line):
        Kernel(*given)
    with pytest.raises(DseError, match="format: found 'trt', expected one of vllm, sglang"):
        Kernel("moe", EXPERTS).file_name("trt", "NVIDIA H20")
