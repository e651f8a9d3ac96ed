"""GPU files of the devices in tables of recorded times."""

import pytest

from dse.errors import DseError
from dse.explore.matrix.devices import gpu_file


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


def test_unknown_device():
    with pytest.raises(DseError, match="gpu: found 'NVIDIA_Z1', expected a device that gpus/ has a file of"):
        gpu_file("NVIDIA_Z1")
