"""Compiler options for AMD GPUs: NVRTC's in clang's words, and clang's own, on a list."""

import pytest

from dse.errors import DseError
from dse.source.amd.compile.options import check, for_clang


def test_options_of_cuda_are_translated():
    given = [
        "--use_fast_math",
        "-DN=3",
        "--define-macro=M=4",
        "--std=c++17",
        "--maxrregcount=64",
        "-lineinfo",
    ]
    check(given, "kernel")
    assert for_clang(given) == ["-ffast-math", "-DN=3", "-DM=4", "-std=c++17"]


def test_options_of_clang_stay():
    given = ["-O2", "-mcumode", "--gpu-max-threads-per-block=256", "-ffp-contract=off"]
    check(given, "kernel")
    assert for_clang(given) == given


@pytest.mark.parametrize(
    "option", ["-fplugin=x.so", "-o", "@file", "-Xclang", "--save-temps", "-include=/etc/passwd"]
)
def test_others_are_refused(option: str):
    with pytest.raises(DseError, match="kernel: found"):
        check([option], "kernel")
