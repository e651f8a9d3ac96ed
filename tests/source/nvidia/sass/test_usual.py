"""Functions have code for numbers at the edges of their format, which unknown data does not reach."""

from pathlib import Path

import pytest

from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compile_source, read_source
from dse.source.nvidia.profile.characterise import Characterisation, characterise, prepare
from dse.source.nvidia.sass.disassemble import disassemble

CODE = """
extern "C" __global__ void f(float* y, const float* x)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    WORK;
    y[i] = v;
}
"""


def counted(folder: Path, work: str, arch: int = 86) -> Characterisation:
    path = folder / "f.cu"
    path.write_text(CODE)
    made = compile_source(read_source(path, "f"), arch, {"WORK": work})
    assert isinstance(made, Compiled)
    (listing,) = disassemble([made.binary])
    return characterise(prepare(listing), LaunchArguments((4, 1, 1), (256, 1, 1), (None, None)))


@pytest.mark.parametrize("arch", [pytest.param(75, marks=pytest.mark.slow), 86])
@pytest.mark.parametrize(
    ("work", "operations"),
    [
        ("v = rsqrtf(v)", 0),  # two multiplications scale what is close to zero
        ("v = __expf(v)", 1),  # of log2 e
        (
            "v = sqrtf(v)",
            4,
        ),  # two multiplies and two multiply-adds after the reciprocal root
        ("v = 3.0f / v", 5),  # two steps of Newton's
        ("v = v > 1.0f ? v * v + 3.0f : v", 0.5),  # of this nothing is known
    ],
)
def test_only_what_usual_numbers_need_counts(tmp_path: Path, work: str, operations: float, arch: int) -> None:
    result = counted(tmp_path, work, arch)
    assert result.fp32_ops / (4 * 256) == operations
    assert result.insts() / result.warps < 30  # those at the edges take a hundred


@pytest.mark.parametrize(
    ("work", "insts"), [("v = 3.0 / (1.0 + v)", 45), ("v = sqrt((double)v)", 45), ("v = log((double)v)", 90)]
)
def test_so_it_is_in_double_precision(tmp_path: Path, work: str, insts: int) -> None:
    result = counted(tmp_path, work)
    assert 25 < result.insts() / result.warps < insts


def test_powers_are_neither_of_zero_nor_of_one(tmp_path: Path) -> None:
    assert counted(tmp_path, "v = powf(v, 1.7f)").fp32_ops / (4 * 256) > 30


def test_a_loop_until_a_number_is_zero_ends(tmp_path: Path) -> None:
    result = counted(tmp_path, "while (v != 0.0f) v *= 0.5f")
    assert {"branch"} == {each.what for each in result.unknown}
    assert result.insts() / result.warps < 40
