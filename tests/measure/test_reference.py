"""What kernels must compute, held against other ways to compute it: whole arrays, loops, SciPy."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import correlate2d
from scipy.special import softmax

from dse import kernels
from dse.core.space import Expression
from dse.measure.checking import WHOLE, CheckedLaunch, places, wrong
from dse.measure.reference import REFERENCES, SOFTENING
from dse.measure.reference_triton import EPSILON, SCALE

RANDOM = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.random(shape, np.float32)


def halves(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float16)


def check(
    name: str, sizes: dict[str, int], arrays: dict[int, np.ndarray], expected: Any, **constants: np.ndarray
) -> None:
    """What a kernel must compute of its arguments is as expected: everywhere, and at two places alone."""
    reference = REFERENCES[name]
    expected = np.ravel(expected)
    assert reference.size(sizes) == len(expected)
    for at in (np.arange(len(expected)), np.array([0, len(expected) - 1])):
        raveled = {place: np.ravel(array) for place, array in arrays.items()}
        values = reference.expected(CheckedLaunch(sizes, raveled, constants, at))
        np.testing.assert_allclose(values, expected[at], rtol=1e-5)


def test_every_kernel_with_source_can_be_checked():
    known = {name: kernels.load(name) for name in kernels.names()}
    assert sorted(REFERENCES) == sorted(name for name, kernel in known.items() if kernel.build is not None)
    for name, reference in REFERENCES.items():
        assert {*reference.depends} <= {*known[name].space.names}


@pytest.mark.parametrize(
    ("name", "place", "number"),
    [("nbody", 3, SOFTENING), ("triton_layer_norm", 5, EPSILON), ("triton_attention", 5, SCALE)],
)
def test_numbers_of_the_kernel_files(name: str, place: int, number: float):
    build = kernels.load(name).build
    assert build is not None
    argument = build.arguments[place]
    assert isinstance(argument, Expression)
    assert float(argument.text) == number


def test_stencils():
    image, taps = floats(13, 12), floats(3, 5)
    sizes = {"image_width": 8, "image_height": 11, "filter_width": 5, "filter_height": 3}
    expected = correlate2d(image.astype(float), taps.astype(float), "valid")
    check("convolution", sizes, {1: image}, expected, filter=taps.ravel())
    grid, weights, radius = floats(12, 14), floats(3), 2
    star = np.zeros((5, 5))
    for d in range(-radius, radius + 1):
        star[radius + d, radius] = star[radius, radius + d] = weights[abs(d)]
    expected = correlate2d(grid.astype(float), star, "valid")
    check("stencil2d", {"width": 10, "height": 8, "radius": radius}, {0: grid}, expected, weights=weights)


def test_dedispersion():
    samples, dms, channels, longest = 20, 6, 4, 7
    data = RANDOM.integers(0, 256, (channels, samples + longest)).astype(np.uint8)
    shifts = (longest * np.arange(channels) / (0.02 * (dms - 1) * (channels - 1))).astype(np.float32)
    expected = np.zeros((dms, samples))
    for y in range(dms):
        for channel in range(channels):
            delay = int(np.float32(0.02) * np.float32(y) * shifts[channel])
            expected[y] += data[channel, delay : delay + samples]
    sizes = {"samples": samples, "dms": dms, "channels": channels, "longest_delay": longest}
    check("dedispersion", sizes, {0: data, 2: shifts}, expected)


def test_products_of_matrices():
    a, b, c = floats(6, 7), floats(7, 5), floats(6, 5)
    sizes = {"m": 6, "n": 5, "k": 7}
    for name in ("matmul_naive", "matmul_tiled"):
        check(name, sizes, {0: a, 1: b}, a @ b)
    check("gemm", sizes, {0: a.T, 1: b, 2: c.T}, b.T @ a.T + c.T)  # k rows of m, k rows of n, n rows of m
    a, b = halves(6, 7), halves(7, 5)
    for name in ("triton_matmul", "triton_matmul_tma"):
        check(name, {"M": 6, "N": 5, "K": 7}, {0: a, 1: b}, a.astype(float) @ b.astype(float))


def test_sums_and_counts():
    values, sizes = floats(100), {"count": 100, "block": 8, "items": 3}
    parts = [values[first : first + 24] for first in range(0, 100, 24)]
    check("prefix_sum", sizes, {0: values}, np.concatenate([np.cumsum(part) for part in parts]))
    check("reduction", sizes, {0: values}, [part.sum() for part in parts])
    bins = RANDOM.integers(0, 9, 50).astype(np.uint32)
    check("histogram", {"bins": 10}, {0: bins}, [int((bins == item).sum()) for item in range(10)])


def test_sparse_products_and_transposition():
    starts = np.array([0, 2, 2, 5], np.int32)
    columns, values, x = np.array([0, 2, 1, 1, 0], np.int32), floats(5), floats(3)
    dense = np.zeros((3, 3))
    for row in range(3):
        for place in range(starts[row], starts[row + 1]):
            dense[row, columns[place]] += values[place]
    check("spmv_csr", {"rows": 3}, {0: values, 1: columns, 2: starts, 3: x}, dense @ x)
    matrix = floats(4, 6)
    check("transpose", {"width": 6, "height": 4}, {0: matrix}, matrix.T)


def test_nbody():
    bodies = floats(7, 4)
    expected = np.zeros((7, 4))
    for single in range(7):
        for other in range(7):
            apart = bodies[other, :3].astype(float) - bodies[single, :3]
            expected[single, :3] += bodies[other, 3] * apart / (apart @ apart + SOFTENING) ** 1.5
    check("nbody", {"count": 7}, {0: bodies}, expected)


def test_rows_of_matrices():
    matrix, weight, bias = floats(4, 6), halves(6), halves(6)
    sizes, rows = {"rows": 4, "columns": 6}, matrix.astype(float)
    check("triton_softmax", sizes, {1: matrix}, softmax(rows, axis=1))
    moved = ((rows.T - rows.mean(1)) / np.sqrt(rows.var(1) + EPSILON)).T
    expected = moved * weight.astype(float) + bias.astype(float)
    check("triton_layer_norm", sizes, {1: matrix, 2: weight, 3: bias}, expected)


@pytest.mark.parametrize("causal", [0, 1])
def test_attention(causal: int):
    heads, length, width = 2, 5, 4
    arrays = {place: halves(heads, length, width) for place in range(3)}
    queries, keys, values = (array.astype(float) for array in arrays.values())
    scores = SCALE * np.einsum("hqd,hkd->hqk", queries, keys)
    if causal:
        scores[:, *np.triu_indices(length, 1)] = -np.inf
    expected = np.einsum("hqk,hkd->hqd", softmax(scores, axis=2), values)
    sizes = {"heads": heads, "length": length, "HEAD": width, "CAUSAL": causal}
    check("triton_attention", sizes, arrays, expected)


def test_experts():
    """Three tokens, two experts each, of four; tiles of two rows, the last of an expert padded."""
    tokens, experts, n, k = halves(3, 5), halves(4, 6, 5), 6, 5
    of_pair = [2, 0, 0, 1, 2, 0]
    order = np.array([1, 2, 5, 6, 3, 6, 0, 4], np.int32)  # by expert; 6 is none
    expected = [tokens[pair // 2].astype(float) @ experts[of_pair[pair]].T.astype(float) for pair in range(6)]
    sizes = {"token_count": 3, "top_k": 2, "expert_count": 4, "N": n, "K": k, "BLOCK_M": 2}
    check("triton_moe", sizes, {0: tokens, 1: experts, 3: order, 4: np.array([0, 0, 1, 2])}, expected)


def test_where_to_look():
    assert places(100).tolist() == list(range(100))
    at = places(10**6)
    assert np.array_equal(at, places(10**6))
    assert (at[0], at[-1]) == (0, 10**6 - 1)
    assert (np.diff(at) > 0).all()
    assert WHOLE / 2 < len(at) <= WHOLE


@pytest.mark.parametrize(
    ("changed", "tolerance", "place"),
    [(1.0, 0.0, None), (1.0 + 1e-6, 0.0, 3), (1.0 + 1e-6, 1e-4, None), (1.01, 1e-4, 3), (np.nan, 1e-4, 3)],
)
def test_what_is_wrong(changed: float, tolerance: float, place: int | None):
    expected = np.ones(5)
    values = expected.copy()
    values[3] = changed
    assert wrong(values, expected, tolerance) == place


SCRIPT = Path(__file__).with_name("triton_interpreted.py")


@pytest.mark.slow
def test_every_kernel_computes_what_is_expected():
    pytest.importorskip("triton")
    ran = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    actual = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [problem for _, problem in actual if problem] == []
    assert {name for name, _ in actual} == {name for name in kernels.names() if name.startswith("triton_")}
