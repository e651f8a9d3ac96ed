"""Functions have code for numbers at the edges of their format, which unknown data does not reach."""

from collections.abc import Callable

import pytest
from support.sass_code import characterise, compiled

from dse.source.machine.launch import LaunchArguments
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


LOOP = "while (v != 0.0f) v *= 0.5f"
WORKS = {  # fewest operations of float32 and most, fewest instructions and most, of a thread
    "v = rsqrtf(v)": (0, 0, 0, 30),  # two multiplications scale what is close to zero
    "v = __expf(v)": (1, 1, 0, 30),  # of log2 e
    "v = sqrtf(v)": (4, 4, 0, 30),  # two multiplies and two multiply-adds after the reciprocal root
    "v = 3.0f / v": (5, 5, 0, 30),  # two steps of Newton's
    "v = v > 1.0f ? v * v + 3.0f : v": (0.5, 0.5, 0, 30),  # of this nothing is known
    "v = powf(v, 1.7f)": (30, 99, 0, 200),  # neither of zero nor of one
    "v = 3.0 / (1.0 + v)": (0, 9, 25, 45),  # in double precision
    "v = 1.0 / (double)v": (0, 9, 20, 30),
    "v = sqrt((double)v)": (0, 9, 25, 45),
    "v = log((double)v)": (0, 9, 60, 100),
    LOOP: (0, 9, 0, 40),
}
Counted = Callable[[str], Characterisation]


@pytest.fixture(scope="module", params=[86, 100])
def counted(request) -> Counted:
    """Counts of each kind of work; all are disassembled together, which one process does as fast."""
    listings = disassemble([compiled(CODE, request.param, WORK=work).binary for work in WORKS])
    listed = dict(zip(WORKS, listings, strict=True))
    launch = LaunchArguments((4, 1, 1), (256, 1, 1), (None, None))
    return lambda work: characterise(listed[work], launch)


@pytest.mark.parametrize("work", WORKS)
def test_only_what_usual_numbers_need_counts(counted: Counted, work: str) -> None:
    """What those at the edges need takes a hundred instructions."""
    result, (fewest, most, least, greatest) = counted(work), WORKS[work]
    assert fewest <= result.fp32_ops / (4 * 256) <= most
    assert least <= result.insts() / result.warps < greatest
    assert work != LOOP or {item.what for item in result.unknown} == {"branch"}
