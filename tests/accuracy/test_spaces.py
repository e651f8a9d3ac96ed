"""Whose space and which GPU a measured file is of."""

from pathlib import Path

import pytest

from dse.accuracy.spaces import gpu_or_relative, kernel_of
from dse.errors import DseError
from dse.hardware import gpus


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("A4000.csv.gz", "rtx_a4000"),
        ("MI250X_run2.csv", "mi250x"),
        ("TITAN-RTX_run2.csv", "titan_rtx"),
        ("convolution-rtx3090.parquet", "rtx_3090"),
        ("NVIDIA_A100-PCIE-40GB_2024.csv", "a100_pcie_40gb"),
    ],
)
def test_a_file_is_named_after_its_gpu(file, name):
    assert gpus.in_name(Path("space") / file).path.stem == name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("GTX_1085_Ti.csv", "gtx_1080_ti"),
        ("NVIDIA GeForce RTX 3085.csv", "rtx_3080"),
        ("Radeon-Pro-W6805.csv.gz", "pro_w6800"),
        ("A4000.csv", "rtx_a4000"),
    ],
)
def test_a_gpu_without_a_file_is_taken_for_a_relative(file, name):
    notes: list[str] = []
    actual = gpu_or_relative(Path("space") / file, notes.append)
    assert actual.path.stem == name
    assert all(note.endswith(f": predicted as for {actual.name}") for note in notes)
    assert bool(notes) == (file != "A4000.csv")


@pytest.mark.parametrize("file", ["times.csv", "GTX_0999.csv", "run_2.csv"])
def test_a_name_that_is_no_gpu(file):
    for of_file in (gpus.in_name, lambda path: gpu_or_relative(path, print)):
        with pytest.raises(DseError, match="gpu: found"):
            of_file(Path("space") / file)


def test_a_folder_is_named_after_a_space_or_a_kernel():
    for folder, name in (
        ("convolution_milo", "convolution"),
        ("convolution", "convolution"),
        ("expdist", ""),
    ):
        kernel = kernel_of(Path(folder) / "A100.csv")
        assert (kernel.name if kernel else "") == name
