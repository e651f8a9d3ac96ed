"""Compiler options for AMD GPUs: NVRTC's in clang's words, and clang's own, on a list."""

import pytest

from dse.errors import DseError
from dse.source.amd.compile.options import check, for_clang


def test_options_of_cuda_are_translated():
    arguments = [
        "--use_fast_math",
        "-DN=3",
        "--define-macro=M=4",
        "--std=c++17",
        "--maxrregcount=64",
        "-lineinfo",
    ]
    check(arguments, "kernel")
    assert for_clang(arguments) == ["-ffast-math", "-DN=3", "-DM=4", "-std=c++17"]


def test_options_of_clang_stay():
    arguments = ["-O2", "-mcumode", "--gpu-max-threads-per-block=256", "-ffp-contract=off"]
    check(arguments, "kernel")
    assert for_clang(arguments) == arguments


@pytest.mark.parametrize(
    "option", ["-fplugin=x.so", "-o", "@file", "-Xclang", "--save-temps", "-include=/etc/passwd"]
)
def test_others_are_refused(option: str):
    with pytest.raises(DseError, match="kernel: found"):
        check([option], "kernel")
