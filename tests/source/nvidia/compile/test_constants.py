import numpy as np
import pytest

from dse.source.nvidia.compile.constants import constants

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
    assert constants("__shared__ float a[N];", {"N": [3, 5]}, 2).shared_bytes.tolist() == [12, 20]  # type: ignore[union-attr]


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
