"""Functions that kernels of PyTorch's Inductor call, by the names that they have in its `triton_helpers`."""

import triton
import triton.language as tl
from triton.language import math
from triton.language.extra import libdevice

__all__ = ["libdevice", "math"]


@triton.jit
def promote_to_tensor(x):
    return x + tl.zeros((1,), tl.int1)


@triton.jit
def is_floating(x):
    return promote_to_tensor(x).dtype.is_floating()


@triton.jit
def div_floor_integer(a, b):
    quotient = a // b
    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def remainder_integer(a, b):
    remainder = a % b
    return tl.where((remainder != 0) & ((a < 0) != (b < 0)), remainder + b, remainder)


@triton.jit
def minimum(a, b):
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def maximum(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def _either(a, b):
    return a | b


@triton.jit
def _first(a, i, b, j, before):
    """Choose a where it comes before b, NaN before all, and of equal values the one with the lower index."""
    alike = (a == b) | ((a != a) & (b != b))
    chosen = before | ((a != a) & (b == b)) | (alike & (i < j))
    return tl.where(chosen, a, b), tl.where(chosen, i, j)


@triton.jit
def minimum_with_index(a, i, b, j):
    return _first(a, i, b, j, a < b)


@triton.jit
def maximum_with_index(a, i, b, j):
    return _first(a, i, b, j, a > b)


@triton.jit
def prod(x, dim):
    return tl.reduce(x, dim, _product)


@triton.jit
def any(x, dim):
    return tl.reduce(x, dim, _either)


@triton.jit
def min2(x, dim):
    return tl.reduce(x, dim, minimum)


@triton.jit
def max2(x, dim):
    return tl.reduce(x, dim, maximum)


@triton.jit
def min_with_index(x, index, dim):
    return tl.reduce((x, index), dim, minimum_with_index)


@triton.jit
def max_with_index(x, index, dim):
    return tl.reduce((x, index), dim, maximum_with_index)


@triton.jit
def welford_reduce(x, mean, m2, weight, first):
    if first:
        mean, m2, weight = x, tl.zeros_like(m2), tl.full(weight.shape, 1, weight.dtype)
    else:
        difference = x - mean
        weight += 1
        mean += difference / weight
        m2 += difference * (x - mean)
    return mean, m2, weight


@triton.jit
def welford_combine(mean, m2, weight, mean_2, m2_2, weight_2):
    difference = mean_2 - mean
    total = weight + weight_2
    share = tl.where(total == 0.0, 0.0, weight_2 / total)
    return mean + difference * share, m2 + m2_2 + difference * difference * weight * share, total


@triton.jit
def welford(mean, m2, weight, dim):
    return tl.reduce((mean, m2, weight), dim, welford_combine)


@triton.jit
def exp(x, use_fast_math: tl.constexpr):
    return math.exp(x) if use_fast_math else libdevice.exp(x)


@triton.jit
def online_softmax_combine(largest, total, x, use_fast_math: tl.constexpr):
    now = maximum(largest, x)
    scale = tl.where(now == float("-inf"), 1.0, exp(largest - now, use_fast_math))
    return now, total * scale + tl.where(now == float("-inf"), 1.0, exp(x - now, use_fast_math))


@triton.jit
def online_softmax_reduce(largest, total, dim, use_fast_math: tl.constexpr):
    now = max2(largest, dim)
    kept = tl.expand_dims(now, dim)
    below = tl.where(kept == float("-inf"), 0.0, largest - kept)
    return now, tl.sum(total * exp(below, use_fast_math), dim)


@triton.jit
def device_assert_then(condition, message, x):
    tl.device_assert(condition, message)
    return x


@triton.jit
def randint64(seed, offset, low, high):
    below, above, _third, _fourth = tl.randint4x(seed, offset)
    number = below.to(tl.uint64) | (above.to(tl.uint64) << 32)
    return (number % (high - low).to(tl.uint64)).to(tl.int64) + low


@triton.jit
def select_one(x, mask, dim, keep_dims=False):
    whole = tl.core.get_int_dtype(x.dtype.primitive_bitwidth, signed=False)
    bits = tl.where(mask, x.to(whole, bitcast=True), 0)
    return tl.sum(bits, dim, keep_dims=keep_dims).to(whole).to(x.dtype, bitcast=True)


@triton.jit
def x_grid_barrier(semaphore):
    """Wait for all blocks along x: the first one's share turns the highest bit once the others have come."""
    tl.debug_barrier()
    highest = tl.full([], 0x80000000, tl.uint32)
    others = (tl.num_programs(0) - 1).to(tl.uint32)
    share = tl.where(tl.program_id(0) == 0, highest - others, 1)
    before = tl.atomic_add(semaphore, share, sem="release")
    now = before
    while ((now ^ before) & highest) == 0:
        now = tl.atomic_add(semaphore, 0, sem="acquire")
    tl.debug_barrier()
