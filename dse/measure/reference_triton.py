"""NumPy references of our Triton kernels' outputs: elements, in double precision."""

import numpy as np

from dse.measure.checking import CheckedLaunch, Reference, dots, product

HALF = 5e-3  # tolerance of single-precision sums rounded to float16


def matmul(case: CheckedLaunch, sizes: str = "MNK") -> np.ndarray:
    """Multiply the first two arrays; `sizes` are the letters of M, N and K."""
    m, n, k = map(case.size, sizes)
    row, column = np.divmod(case.at, n)
    return dots(case.arrays[0].reshape(m, k), row, case.arrays[1].reshape(k, n).T, column)


def _rows(case: CheckedLaunch, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the checked rows of a matrix, and the row among them and the column of each element."""
    columns = case.size("columns")
    row, column = np.divmod(case.at, columns)
    checked, which = np.unique(row, return_inverse=True)
    return case.arrays[index].reshape(-1, columns)[checked].astype(float), which, column


def _softmax(case: CheckedLaunch) -> np.ndarray:
    rows, which, column = _rows(case, 1)
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return (powers / powers.sum(axis=1, keepdims=True))[which, column]


def _layer_norm(case: CheckedLaunch) -> np.ndarray:
    rows, which, column = _rows(case, 1)
    weight, bias = case.arrays[2].astype(float), case.arrays[3].astype(float)
    moved = rows - rows.mean(axis=1, keepdims=True)
    scaled = moved / np.sqrt(rows.var(axis=1, keepdims=True) + EPSILON)
    return (scaled * weight + bias)[which, column]


EPSILON = 1e-5  # as in the kernel.toml of triton_layer_norm


def _attention(case: CheckedLaunch) -> np.ndarray:
    length, width = case.size("length"), case.size("HEAD")
    query, column = np.divmod(case.at, width)
    queries, keys, values = (case.arrays[index].reshape(-1, width) for index in range(3))
    checked, which = np.unique(query, return_inverse=True)
    results = np.empty((len(checked), width))
    for number, row in enumerate(checked):
        first = row // length * length  # of its head
        seen = slice(first, row + 1 if case.size("CAUSAL") else first + length)
        scores = SCALE * (keys[seen].astype(float) @ queries[row].astype(float))
        powers = np.exp(scores - scores.max())
        results[number] = powers @ values[seen].astype(float) / powers.sum()
    return results[which, column]


SCALE = 0.125  # as in the kernel.toml of triton_attention


def _moe(case: CheckedLaunch) -> np.ndarray:
    n, k, block = case.size("N"), case.size("K"), case.size("BLOCK_M")
    pair, column = np.divmod(case.at, n)
    tokens, tiles = case.arrays[3], case.arrays[4]
    expert = np.zeros(int(max(tokens.max(), pair.max())) + 1, np.int64)
    expert[tokens] = np.repeat(tiles, block)
    return dots(
        case.arrays[0].reshape(-1, k),
        pair // case.size("top_k"),
        case.arrays[1].reshape(-1, k),
        expert[pair] * n + column,
    )


OF_TRITON = {
    "triton_attention": Reference(
        3, product("heads", "length", "HEAD"), _attention, depends=("HEAD", "CAUSAL"), tolerance=HALF
    ),
    "triton_layer_norm": Reference(0, product("rows", "columns"), _layer_norm, tolerance=HALF),
    "triton_matmul": Reference(2, product("M", "N"), matmul, tolerance=HALF),
    "triton_matmul_tma": Reference(2, product("M", "N"), matmul, tolerance=HALF),
    "triton_moe": Reference(
        2, product("token_count", "top_k", "N"), _moe, depends=("BLOCK_M",), tolerance=HALF
    ),
    "triton_softmax": Reference(0, product("rows", "columns"), _softmax),
}
