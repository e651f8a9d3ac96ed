"""What kernels must compute, held against other ways to compute it: whole arrays, loops, SciPy."""

from typing import Any

import numpy as np
from scipy.signal import correlate2d

from dse import kernels
from dse.core.space import Expression
from dse.measure.checking import CheckedLaunch
from dse.measure.reference import REFERENCES, SOFTENING

RANDOM = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.random(shape, np.float32)


def found(name: str, names: dict[str, int], arrays: dict[int, np.ndarray], **constants: np.ndarray) -> Any:
    checks = REFERENCES[name]
    at = np.arange(checks.size(names))
    case = CheckedLaunch(names, {place: np.ravel(array) for place, array in arrays.items()}, constants, at)
    return checks.expected(case)


def test_every_kernel_with_source_can_be_checked():
    known = {name: kernels.load(name) for name in kernels.names()}
    with_source = [name for name, kernel in known.items() if kernel.build is not None]
    assert sorted(REFERENCES) == sorted(with_source)
    build = kernels.load("nbody").build
    assert build is not None
    softening = build.arguments[3]
    assert isinstance(softening, Expression)
    assert float(softening.text) == SOFTENING
    for name, checks in REFERENCES.items():
        description = kernels.load(name)
        assert {*checks.depends} <= {*description.space.names}


def test_convolution():
    image, taps = floats(13, 12), floats(3, 5)
    names = {"image_width": 8, "image_height": 11, "filter_width": 5, "filter_height": 3}
    expected = correlate2d(image.astype(float), taps.astype(float), "valid")
    np.testing.assert_allclose(
        found("convolution", names, {1: image}, filter=taps.ravel()), expected.ravel(), rtol=1e-12
    )


def test_stencil2d():
    grid, weights, radius = floats(12, 14), floats(3), 2
    names = {"width": 10, "height": 8, "radius": radius}
    star = np.zeros((5, 5))
    for d in range(-radius, radius + 1):
        star[radius + d, radius] = star[radius, radius + d] = weights[abs(d)]
    expected = correlate2d(grid.astype(float), star, "valid")
    np.testing.assert_allclose(
        found("stencil2d", names, {0: grid}, weights=weights), expected.ravel(), rtol=1e-12
    )


def test_dedispersion():
    samples, dms, channels, longest = 20, 6, 4, 7
    data = RANDOM.integers(0, 256, (channels, samples + longest)).astype(np.uint8)
    shifts = (longest * np.arange(channels) / (0.02 * (dms - 1) * (channels - 1))).astype(np.float32)
    expected = np.zeros((dms, samples))
    for y in range(dms):
        for channel in range(channels):
            delay = int(np.float32(0.02) * np.float32(y) * shifts[channel])
            expected[y] += data[channel, delay : delay + samples]
    names = {"samples": samples, "dms": dms, "channels": channels, "longest_delay": longest}
    np.testing.assert_array_equal(found("dedispersion", names, {0: data, 2: shifts}), expected.ravel())


def test_products_of_matrices():
    a, b, c = floats(6, 7), floats(7, 5), floats(6, 5)
    names = {"m": 6, "n": 5, "k": 7}
    for name in ("matmul_naive", "matmul_tiled"):
        np.testing.assert_allclose(found(name, names, {0: a, 1: b}), np.ravel(a @ b), rtol=1e-5)
    # k rows of m, k rows of n, n rows of m
    expected = (b.T @ a.T + c.T).ravel()
    np.testing.assert_allclose(found("gemm", names, {0: a.T, 1: b, 2: c.T}), expected, rtol=1e-5)


def test_sums():
    values = floats(100)
    names = {"count": 100, "block": 8, "items": 3}
    parts = [values[first : first + 24] for first in range(0, 100, 24)]
    expected = np.concatenate([np.cumsum(part) for part in parts])
    np.testing.assert_allclose(found("prefix_sum", names, {0: values}), expected, rtol=1e-5)
    np.testing.assert_allclose(
        found("reduction", names, {0: values}), [part.sum() for part in parts], rtol=1e-5
    )


def test_histogram():
    values = RANDOM.integers(0, 9, 50).astype(np.uint32)
    expected = [int((values == bin_).sum()) for bin_ in range(10)]
    assert found("histogram", {"bins": 10}, {0: values}).tolist() == expected


def test_spmv_csr():
    starts = np.array([0, 2, 2, 5], np.int32)
    columns, values, x = np.array([0, 2, 1, 1, 0], np.int32), floats(5), floats(3)
    dense = np.zeros((3, 3))
    for row in range(3):
        for place in range(starts[row], starts[row + 1]):
            dense[row, columns[place]] += values[place]
    arrays = {0: values, 1: columns, 2: starts, 3: x}
    np.testing.assert_allclose(found("spmv_csr", {"rows": 3}, arrays), dense @ x, rtol=1e-6)


def test_nbody():
    bodies = floats(7, 4)
    expected = np.zeros((7, 4))
    for one in range(7):
        for other in range(7):
            apart = bodies[other, :3].astype(float) - bodies[one, :3]
            expected[one, :3] += bodies[other, 3] * apart / (apart @ apart + SOFTENING) ** 1.5
    np.testing.assert_allclose(found("nbody", {"count": 7}, {0: bodies}), expected.ravel(), rtol=1e-9)


def test_transpose():
    matrix = floats(4, 6)
    names = {"width": 6, "height": 4}
    np.testing.assert_array_equal(found("transpose", names, {0: matrix}), matrix.T.ravel())
