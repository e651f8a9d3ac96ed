"""Functions have code for numbers at the edges of their format, which unknown data does not reach."""

from collections.abc import Callable

import pytest
from support.sass_code import characterise

from dse.source.machine.launch import LaunchArguments
from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.nvrtc import compile_source, read_source
from dse.source.nvidia.sass.disassemble import disassemble
from dse.source.profile.characterise import Characterisation

CODE = """
extern "C" __global__ void f(float* y, const float* x)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    WORK;
    y[i] = v;
}
"""


OPERATIONS = {  # of a thread
    "v = rsqrtf(v)": 0,  # two multiplications scale what is close to zero
    "v = __expf(v)": 1,  # of log2 e
    "v = sqrtf(v)": 4,  # two multiplies and two multiply-adds after the reciprocal root
    "v = 3.0f / v": 5,  # two steps of Newton's
    "v = v > 1.0f ? v * v + 3.0f : v": 0.5,  # of this nothing is known
}
DOUBLE = {  # least and most instructions
    "v = 3.0 / (1.0 + v)": (25, 45),
    "v = 1.0 / (double)v": (20, 30),
    "v = sqrt((double)v)": (25, 45),
    "v = log((double)v)": (60, 100),
}
POWER, LOOP = "v = powf(v, 1.7f)", "while (v != 0.0f) v *= 0.5f"
Counted = Callable[[str], Characterisation]


@pytest.fixture(scope="module", params=[86, 100])
def counted(request, tmp_path_factory: pytest.TempPathFactory) -> Counted:
    """Counts of each kind of work; all are disassembled together, which one process does as fast."""
    path = tmp_path_factory.mktemp("usual") / "f.cu"
    path.write_text(CODE)
    source, works = read_source(path, "f"), (*OPERATIONS, *DOUBLE, POWER, LOOP)
    made = [compile_source(source, request.param, {"WORK": work}) for work in works]
    listings = disassemble([item.binary for item in made if isinstance(item, Compiled)])
    listed = dict(zip(works, listings, strict=True))
    launch = LaunchArguments((4, 1, 1), (256, 1, 1), (None, None))
    return lambda work: characterise(listed[work], launch)


@pytest.mark.quick("86")
@pytest.mark.parametrize(("work", "operations"), OPERATIONS.items())
def test_only_what_usual_numbers_need_counts(counted: Counted, work: str, operations: float) -> None:
    result = counted(work)
    assert result.fp32_ops / (4 * 256) == operations
    assert result.insts() / result.warps < 30  # those at the edges take a hundred


@pytest.mark.parametrize(("work", "insts"), DOUBLE.items())
def test_so_it_is_in_double_precision(counted: Counted, work: str, insts: tuple[int, int]) -> None:
    result = counted(work)
    assert insts[0] < result.insts() / result.warps < insts[1]


def test_powers_are_neither_of_zero_nor_of_one(counted: Counted) -> None:
    assert counted(POWER).fp32_ops / (4 * 256) > 30


def test_a_loop_until_a_number_is_zero_ends(counted: Counted) -> None:
    result = counted(LOOP)
    assert {"branch"} == {item.what for item in result.unknown}
    assert result.insts() / result.warps < 40
