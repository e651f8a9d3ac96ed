"""Whose space and which GPU a measured file is of."""

from pathlib import Path

import pytest

from dse.accuracy.spaces import gpu_file, kernel_of
from dse.errors import DseError


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("A4000.csv.gz", "rtx_a4000"),
        ("RTX_2080_Ti.csv", "rtx_2080_ti"),
        ("MI250X_run2.csv", "mi250x"),
        ("convolution-rtx3090.parquet", "rtx_3090"),
        ("NVIDIA_A100-PCIE-40GB_2024.csv", "a100_pcie_40gb"),
    ],
)
def test_a_file_is_named_after_its_gpu(file, name):
    assert gpu_file(Path("space") / file).path.stem == name


@pytest.mark.parametrize("file", ["times.csv", "GTX_9999.csv", "run_2.csv"])
def test_what_names_no_gpu(file):
    with pytest.raises(DseError, match="gpu: found"):
        gpu_file(Path("space") / file)


def test_a_folder_is_named_after_a_space_or_a_kernel():
    for folder in ("convolution_milo", "convolution"):
        found = kernel_of(Path(folder) / "A100.csv")
        assert found is not None
        assert found.name == "convolution"
    assert kernel_of(Path("expdist") / "A100.csv") is None
