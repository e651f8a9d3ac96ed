"""What files declare, told from their text."""

import numpy as np
import pytest

from dse.source.nvidia.compile.constants import constants
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


@pytest.mark.parametrize(
    ("text", "kernel", "expected"),
    [
        ("__global__ void k(const float* x, float y[], int n = 3)", "", "x* y* n"),
        ('#define KERNEL extern "C" __global__\nKERNEL void k(int a);', "k", "a"),
        ("__global__ void __launch_bounds__(128, 2) k(float a, double* /* int b, */ c)", "k", "a. c*"),
        ("template <int N, class T> __global__ void k(T* a, std::array<int, 3> b)", "k<4, float>", "a* b"),
        ("__global__ void j(int a); __global__ void k(void)", "_Z1kv", ""),
        ("// __global__ void j(int a)\n__global__ void k(unsigned long long n)", "", "n"),
        (
            "#if N > 1\n__global__ void k(int n, float* a);\n#else\n__global__ void k(float* a)\n#endif",
            "",
            "a*",
        ),
        ("#define SIZES int n, \\\n  int m\n__global__ void k(float* a, SIZES)", "k", "a* n m"),
        ("#ifdef\n__global__ void k(int n);\n#else\n__global__ void k(float* a)\n#endif", "", "n"),
        ("void f(int a)", "", None),
    ],
)
def test_parameters_by_the_text(write, text: str, kernel: str, expected: str | None):
    actual = parameters_of(read_source(write(text + " {}"), kernel))
    assert (None if actual is None else " ".join(map(_short, actual))) == expected


def test_the_options_of_a_source_choose_between_its_declarations(write):
    other, usual = ("__global__ void k(int m, int n) {}", "__global__ void k(int n, int m) {}")
    text = f'#include "k.h"\n#ifdef SWAPPED\n{other}\n#else\n{usual}\n#endif'
    write("#pragma once", "k.h")
    for options, expected in (((), "n m"), (("-DSWAPPED",), "m n")):
        source = read_source(write(text), "k", options=options)
        assert " ".join(map(_short, parameters_of(source) or ())) == expected


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


TEXT = """
#ifndef WIDTH
#define WIDTH 8 /* overridden */
#endif
#define HALO 2
#if defined(WIDE) && WIDTH > 8
#  define ROWS (WIDTH + \\
                HALO)
#elif WIDTH == 4
#define ROWS 3
#else
#define ROWS WIDTH / 3
#endif
constexpr int columns = WIDTH * 2 - 1, half = columns / 2; // two at once
static const unsigned int mask = (1u << 4) | 0x3;
const bool even = WIDTH % 2 == 0 && !(columns == 7);
const int thread = threadIdx.x; // is not known
constexpr int pad = even ? (32 - columns % 32) % 32 : -7 / 2;
extern __shared__ float open[];
__global__ void f() {
    __shared__ char flag;
    __shared__ double tile[ROWS][columns + HALO], line[sizeof(float) * 2];
}
"""


def plain(width: int, wide: int | None) -> dict[str, int]:
    """The same in Python."""
    rows = width + 2 if wide is not None and width > 8 else 3 if width == 4 else width // 3
    columns = width * 2 - 1
    even = int(width % 2 == 0 and columns != 7)
    return {
        "ROWS": rows,
        "columns": columns,
        "half": columns // 2,
        "mask": 19,
        "even": even,
        "pad": (32 - columns % 32) % 32 if even else -3,
        "tile[0]": rows,
        "tile[1]": columns + 2,
        "line[0]": 8,
    }


@pytest.mark.parametrize("wide", [None, 1])
def test_follows_macros_and_constants_of_every_configuration(wide: int | None) -> None:
    widths = np.array([4, 5, 8, 16, 33])
    defines = {"WIDTH": widths} | ({} if wide is None else {"WIDE": wide})
    actual = constants(TEXT, defines, len(widths))
    for place, width in enumerate(widths.tolist()):
        expected = plain(width, wide)
        assert {name: int(actual.values[name][place]) for name in expected} == expected
        assert actual.shared_bytes is not None
        # one char, then doubles at a multiple of 8
        assert actual.shared_bytes[place] == 8 + 8 * (expected["tile[0]"] * expected["tile[1]"] + 8)
    assert "thread" not in actual.values


def test_says_where_shared_memory_is_not_understood() -> None:
    assert constants("__shared__ float a[size()];", {}, 2).shared_bytes is None
    assert constants("__shared__ Pair a[4];", {}, 2).shared_bytes is None
    of_both = constants("__shared__ float a[N];", {"N": [3, 5]}, 2).shared_bytes
    assert of_both is not None
    assert of_both.tolist() == [12, 20]


def test_a_branch_that_no_configuration_takes_declares_nothing() -> None:
    text = "#if N > 4\n__shared__ int a[N];\nconstexpr int k = 3;\n#else\n__shared__ int b[2];\n#endif"
    actual = constants(text, {"N": np.array([4, 6])}, 2)
    assert actual.shared_bytes is not None
    assert actual.shared_bytes.tolist() == [8, 24]
    assert actual.values["k"].tolist() == [0, 3]
    assert "k" not in constants(text, {"N": 1}, 2).values


def test_a_name_declared_again_as_something_else_is_forgotten() -> None:
    actual = constants("const int n = 4;\nconst int n = threadIdx.x;\nconstexpr int m = n;", {}, 1)
    assert "m" not in actual.values
