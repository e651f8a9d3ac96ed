"""NumPy references of our kernels' outputs, element by element.

In double precision, except where the kernel's rounding decides which data it reads (dedispersion).
"""

from functools import partial

import numpy as np

from dse.measure.checking import CheckedLaunch, Names, Reference, dots, product
from dse.measure.reference_triton import OF_TRITON, matmul


def _convolution(case: CheckedLaunch) -> np.ndarray:
    width, height = case.size("filter_width"), case.size("filter_height")
    pitch = case.size("image_width") + width - 1
    y, x = np.divmod(case.at, case.size("image_width"))
    image, taps = case.arrays[1], case.constants["filter"].astype(float)
    sums = np.zeros(len(case.at))
    for row in range(height):
        for column in range(width):
            sums += taps[row * width + column] * image[(y + row) * pitch + x + column]
    return sums


def _dedispersion(case: CheckedLaunch) -> np.ndarray:
    samples, channels = case.size("samples"), case.size("channels")
    pitch = samples + case.size("longest_delay")
    y, x = np.divmod(case.at, samples)
    measure = np.float32(0.02) * y.astype(np.float32)
    delays = (measure[:, None] * case.arrays[2].astype(np.float32)).astype(np.int64)
    rows = pitch * np.arange(channels)
    return case.arrays[0][rows + x[:, None] + delays].sum(axis=1, dtype=np.int64).astype(np.float32)


def _gemm(case: CheckedLaunch) -> np.ndarray:
    m, n, k = case.size("m"), case.size("n"), case.size("k")
    of_b, of_a = np.divmod(case.at, m)
    a, b = case.arrays[0].reshape(k, m), case.arrays[1].reshape(k, n)
    return dots(a.T, of_a, b.T, of_b) + case.arrays[2][case.at]


def _histogram(case: CheckedLaunch) -> np.ndarray:
    return np.bincount(case.arrays[0], minlength=case.size("bins"))[case.at]


def _nbody(case: CheckedLaunch) -> np.ndarray:
    bodies = case.arrays[0].reshape(-1, 4).astype(float)
    positions, masses = bodies[:, :3], bodies[:, 3]
    body, axis = np.divmod(case.at, 4)
    targets, which = np.unique(body, return_inverse=True)
    forces = np.zeros((len(targets), 4))
    for number, target in enumerate(targets):
        distance = positions - positions[target]
        pull = masses / (np.einsum("ij,ij->i", distance, distance) + SOFTENING) ** 1.5
        forces[number, :3] = pull @ distance
    return forces[which, axis]


SOFTENING = 0.01  # as in the kernel.toml of nbody


def _sums(values: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Sum the values from each start to its end."""
    return np.array([values[start:end].sum(dtype=float) for start, end in zip(starts, ends, strict=True)])


def _prefix_sum(case: CheckedLaunch) -> np.ndarray:
    part = case.size("block") * case.size("items")
    return _sums(case.arrays[0], case.at // part * part, case.at + 1)


def _reduction(case: CheckedLaunch) -> np.ndarray:
    part = case.size("block") * case.size("items")
    return _sums(case.arrays[0], case.at * part, np.minimum((case.at + 1) * part, case.size("count")))


def _spmv_csr(case: CheckedLaunch) -> np.ndarray:
    values, columns, starts, x = (case.arrays[index] for index in range(4))
    products = np.zeros(len(case.at))
    for number, row in enumerate(case.at):
        inside = slice(starts[row], starts[row + 1])
        products[number] = values[inside].astype(float) @ x[columns[inside]]
    return products


def _stencil2d(case: CheckedLaunch) -> np.ndarray:
    width, radius = case.size("width"), case.size("radius")
    pitch = width + 2 * radius
    y, x = np.divmod(case.at, width)
    grid, weights = case.arrays[0].astype(float), case.constants["weights"].astype(float)
    center = (y + radius) * pitch + x + radius
    sums = weights[0] * grid[center]
    for d in range(1, radius + 1):
        around = grid[center - d] + grid[center + d] + grid[center - d * pitch] + grid[center + d * pitch]
        sums += weights[d] * around
    return sums


def _transpose(case: CheckedLaunch) -> np.ndarray:
    row, column = np.divmod(case.at, case.size("height"))
    return case.arrays[0][column * case.size("width") + row]


def _parts(values: Names) -> int:
    """Return the blocks of a reduction."""
    return -(-int(values["count"]) // (int(values["block"]) * int(values["items"])))


REFERENCES = {
    "convolution": Reference(
        0,
        product("image_width", "image_height"),
        _convolution,
        constants={"filter": product("filter_width", "filter_height")},
    ),
    "dedispersion": Reference(1, product("samples", "dms"), _dedispersion, tolerance=0, types={0: "uint8"}),
    "gemm": Reference(2, product("m", "n"), _gemm, adds=True),
    "histogram": Reference(1, product("bins"), _histogram, tolerance=0, types={1: "uint32"}),
    "matmul_naive": Reference(2, product("m", "n"), partial(matmul, sizes="mnk")),
    "matmul_tiled": Reference(2, product("m", "n"), partial(matmul, sizes="mnk")),
    "nbody": Reference(1, lambda values: 4 * int(values["count"]), _nbody, tolerance=1e-3),
    "prefix_sum": Reference(1, product("count"), _prefix_sum, depends=("block", "items")),
    "reduction": Reference(1, _parts, _reduction, depends=("block", "items")),
    "spmv_csr": Reference(4, product("rows"), _spmv_csr),
    "stencil2d": Reference(
        1,
        product("width", "height"),
        _stencil2d,
        constants={"weights": lambda values: int(values["radius"]) + 1},
    ),
    "transpose": Reference(1, product("width", "height"), _transpose, tolerance=0),
    **OF_TRITON,
}
