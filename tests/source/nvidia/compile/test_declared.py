"""What files declare, told from their text."""

from pathlib import Path

import pytest

from dse.source.nvidia.compile.contract import Compiled
from dse.source.nvidia.compile.declared import Declared, kernels_in, parameters_of
from dse.source.nvidia.compile.nvrtc import compile_source, read_source

SEVERAL = """
template <int N> __global__ void scale(float* a) { a[threadIdx.x] *= N; }
__global__ void negate(float* a) { a[threadIdx.x] = -a[threadIdx.x]; }
extern "C" __global__ void clear(float* a) { a[threadIdx.x] = 0; }
"""
PTX = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 a, .param .f32 b) { ret; }
"""


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "k.cu") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "kernel", "expected"),
    [
        ("__global__ void k(const float* x, float y[], int n = 3)", "", "x* y* n"),
        ("__global__ void __launch_bounds__(128, 2) k(float a, double* /* int b, */ c)", "k", "a. c*"),
        ("template <int N, class T> __global__ void k(T* a, std::array<int, 3> b)", "k<4, float>", "a* b"),
        ("__global__ void j(int a); __global__ void k(void)", "_Z1kv", ""),
        ("// __global__ void j(int a)\n__global__ void k(unsigned long long n)", "", "n"),
        ("void f(int a)", "", None),
    ],
)
def test_parameters_by_the_text(write, text: str, kernel: str, expected: str | None):
    actual = parameters_of(read_source(write(text + " {}"), kernel))
    assert (None if actual is None else " ".join(map(_short, actual))) == expected


def _short(declared: Declared) -> str:
    return declared.name + ("*" if declared.pointer else "." if declared.floating else "")


@pytest.mark.slow
def test_parameters_and_kernels_of_what_is_built(write):
    source = read_source(write(PTX, "k.ptx"))
    assert kernels_in(source) == ["k"]
    assert " ".join(map(_short, parameters_of(source) or ())) == "a* b."
    made = compile_source(read_source(write(SEVERAL), "negate"), 80, {})
    assert isinstance(made, Compiled)
    path = write("", "k.cubin")
    path.write_bytes(made.cubin)
    assert set(kernels_in(read_source(path))) == {"_Z6negatePf", "clear"}
    assert " ".join(map(_short, parameters_of(read_source(path, "negate")) or ())) == "*"
    assert kernels_in(read_source(write(SEVERAL))) == ["scale", "negate", "clear"]
