"""Infer the access pattern of a warp in the banks of shared memory from the passes of its accesses.

Thread (x, y) of a block is assumed to access word `a x + b y`, where a and b are 0, 1, a parameter, a
constant of the source, or a product of two of these. A pattern that agrees with all compiled configurations
gives the passes of the others; one that agrees with none exactly may still distinguish them.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement

import numpy as np

from dse.hardware.banks import passes as bank_passes

_CLOSE = 1e-3  # relative; blocks at the edge of a grid may differ from the others
_TRIED = 12  # compiled configurations compared with every pattern; the best patterns with all
_MOST_NAMES = 24
_AT_A_TIME = 2**22  # threads


def passes_per_request(block: np.ndarray, x: np.ndarray, y: np.ndarray, size: int) -> np.ndarray:
    """Count the passes of an access of `size` bytes with strides of `x` and `y` elements along x and y.

    **Shapes:** block [L, 3], x and y [L]; result [L], the mean over the warps of a block.
    """
    threads = block.prod(1)
    per_request = np.empty(len(block))
    order = np.argsort(threads, kind="stable")
    while len(order):
        most = -(-int(threads[order[-1]]) // 32) * 32
        now, order = order[-max(1, _AT_A_TIME // most) :], order[: -max(1, _AT_A_TIME // most)]
        thread = np.arange(most)
        mask = (thread < threads[now, None]).reshape(len(now), -1, 32)
        width, height = block[now, 0, None], block[now, 1, None]
        word = thread % width * x[now, None] + thread // width % height * y[now, None]
        passes = bank_passes(size * word.reshape(mask.shape), mask, size)
        per_request[now] = passes.sum(1) / mask.any(-1).sum(1)
    return per_request


def conflicts(
    block: np.ndarray, names: Mapping[str, np.ndarray], size: int, compiled: np.ndarray, passes: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Return the passes of one request in the best pattern, [L], and whether it fits exactly.

    **Shapes:** block [L, 3], names [L]; `passes` [n] were found in the configurations `compiled` [n].
    """
    order = np.argsort(passes, kind="stable")
    tried = np.unique(order[np.linspace(0, len(order) - 1, min(_TRIED, len(order))).astype(int)])
    at = compiled[tried]
    scores, strides = [], list(_strides(names, compiled))
    for x, y in strides:
        scores.append(_off(passes_per_request(block[at], x[at], y[at], size), passes[tried]).max())
    ranked = np.argsort(scores, kind="stable")
    for rank in ranked[: 1 + int(np.sum(np.array(scores) < _CLOSE))]:
        x, y = strides[rank]
        off = _off(passes_per_request(block[compiled], x[compiled], y[compiled], size), passes)
        if off.max() < _CLOSE:
            return passes_per_request(block, x, y, size), True
    x, y = strides[ranked[0]]
    return passes_per_request(block, x, y, size), False


def _off(estimated: np.ndarray, counted: np.ndarray) -> np.ndarray:
    return np.abs(np.log(estimated / counted))


def _strides(
    names: Mapping[str, np.ndarray], compiled: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (along x, along y), the simplest first, each once if compiled ones distinguish them."""
    count = len(next(iter(names.values())))
    zero, ones = np.zeros(count, np.int64), np.ones(count, np.int64)
    single: list[np.ndarray] = []
    for values in names.values():
        whole = np.issubdtype(values.dtype, np.integer) and values.min() >= 0 and values[compiled].max() > 1
        if whole and not any(np.array_equal(values[compiled], other[compiled]) for other in single):
            single.append(values.astype(np.int64))
    single = single[:_MOST_NAMES]
    double = [a * b for a, b in combinations_with_replacement(single, 2)]
    pairs = [(ones, zero), (zero, ones), (ones, ones)]
    pairs += [(ones, b) for b in single + double] + [(a, ones) for a in single + double]
    pairs += [(zero, b) for b in single] + [(a, zero) for a in single]
    pairs += [(a, b) for a in single for b in single]
    seen = set()
    for x, y in pairs:
        key = x[compiled].tobytes(), y[compiled].tobytes()
        if key not in seen:
            seen.add(key)
            yield x, y
