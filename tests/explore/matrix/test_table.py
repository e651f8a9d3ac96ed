"""The best configurations of vLLM's and SGLang's kernels, of the spaces that their tuners try."""

from collections.abc import Callable

import pytest

from dse.errors import DseError
from dse.explore.matrix.devices import gpu_file
from dse.explore.matrix.rank import scores
from dse.explore.matrix.table import Kernel, best
from dse.explore.matrix.tune import tuned
from dse.hardware import gpus
from dse.models.matrix.configuration import AMD_PARAMETERS, PARAMETERS, space

H20 = gpus.load("h20")
EXPERTS = {"E": 256, "N": 512, "K": 7168, "topk": 8}


@pytest.mark.slow
def test_the_best_is_of_the_tuners_space():
    rows = best(H20, Kernel("moe", EXPERTS, "fp8_w8a8", (128, 128)), [1, 64, 4096])
    assert [row["M"] for row in rows] == [1, 64, 4096]
    tried = {tuple(row) for row in space("moe", (128, 128)).tolist()}
    for row in rows:
        assert tuple(row[name] for name in PARAMETERS) in tried
    assert rows[0]["time_s"] < rows[1]["time_s"] < rows[2]["time_s"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "options"),
    [
        ("mi300x", {(0, 16, 2), (0, 16, 1)}),
        ("pro-w7900", {(0, 16, 1), (1, 16, 1)}),
    ],
)
def test_amds_have_its_options(gpu: str, options: set):
    rows = best(gpus.load(gpu), Kernel("moe", EXPERTS), [1, 512])
    assert {tuple(row[name] for name in AMD_PARAMETERS) for row in rows} <= options
    assert {row["num_stages"] for row in rows} == {2}


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA_A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA_A800-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA_A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"),
        ("A100", "NVIDIA A100-SXM4-80GB"),
        ("H100", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA_H100_PCIe", "NVIDIA H100 PCIe"),
        ("NVIDIA_H20-3e", "NVIDIA H20"),
        ("NVIDIA_GH200_480GB", "NVIDIA GH200 96GB"),
        ("NVIDIA_B300_SXM6_AC", "NVIDIA B300"),
        ("NVIDIA_GeForce_RTX_4090", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"),
    ],
)
def test_device_names(device: str, name: str):
    assert gpu_file(device).name == name


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: Kernel("mmoe", EXPERTS), "kernel: found 'mmoe', expected one of moe, w8a8"),
        (lambda: Kernel("moe", {"E": 8}), "values: N: missing, expected E, N, K, topk"),
        (lambda: Kernel("moe", {**EXPERTS, "K": 0}), "K: found 0, expected a whole number of at least 1"),
        (lambda: Kernel("moe", EXPERTS, "bf16", (1, 1)), "dtype: found 'bf16' with scales of blocks, expect"),
        (lambda: Kernel("w8a8", {"N": 64, "K": 64}, "fp8_w8a8"), "scale_block: missing, expected the block"),
        (lambda: gpu_file("NVIDIA_Z1"), "gpu: found 'NVIDIA_Z1', expected a device that gpus/ has a file of"),
        (lambda: fastest("mi210", "fp8_w8a8"), "dtype: found 'fp8_w8a8', expected .* which have no fp8"),
        (lambda: fastest("pro-w7900", "fp8_w8a8"), "dtype: found 'fp8_w8a8', expected .* which have no fp8"),
        (lambda: fastest("gtx-1060-6gb", "bf16"), r"expected one with .* cpi\.mma_fp16"),
        (lambda: scores(H20, [], space("moe"), "luck"), "by: found 'luck', expected one of physics, prior,"),
        (
            lambda: tuned(H20, Kernel("moe", EXPERTS), [16, 64], lambda configuration: None, 2),
            "command: found no time in 4 runs, expected a last number above 0",
        ),
    ],
)
def test_mistakes_are_reported(call: Callable, line: str):
    with pytest.raises(DseError, match=line):
        call()


def fastest(gpu: str, dtype: str) -> list[dict]:
    return best(gpus.load(gpu), Kernel("moe", EXPERTS, dtype), [1])
