"""Functions that kernels of PyTorch's Inductor call, by the names that they have in its `triton_helpers`."""

# Triton's compiler takes what its types do not allow.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false, reportOptionalMemberAccess=false

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


@triton.jit
def online_softmax_combine_with_sum(largest, total, other, its, use_fast_math: tl.constexpr):
    now = maximum(largest, other)
    scale = tl.where(now == float("-inf"), 1.0, exp(largest - now, use_fast_math))
    return now, total * scale + its * tl.where(now == float("-inf"), 1.0, exp(other - now, use_fast_math))


@tl.core.builtin
def constexpr_next_power_of_2(number, _semantic=None, _builder=None):
    return tl.constexpr(triton.next_power_of_2(number.value))


@tl.core.builtin
def if_mask(mask, value, _semantic=None, _builder=None):
    return tl.constexpr(None) if isinstance(mask, tl.constexpr) and mask.value is None else value


@triton.jit
def frexp(x):
    special = (x == 0) | libdevice.isinf(x).to(tl.int1) | libdevice.isnan(x).to(tl.int1)
    usual = tl.where(special, 1.0, x)
    exponent = libdevice.ilogb(usual) + 1
    return tl.where(special, x, libdevice.ldexp(usual, -exponent)), tl.where(special, 0, exponent)


@triton.jit
def pow_integer(base, exponent):
    bits: tl.constexpr = exponent.dtype.primitive_bitwidth
    left = exponent.to(tl.core.get_int_dtype(bits, signed=False))
    result = tl.full(base.shape, 1, base.dtype)
    for _ in tl.static_range(bits):
        result = tl.where((left & 1) != 0, result * base, result)
        left, base = left >> 1, base * base
    return result


@triton.jit
def _in_order(first, second, third, fourth):
    return tl.reshape(tl.join(tl.join(first, third), tl.join(second, fourth)), [first.numel * 4])


@triton.jit
def rand4x(seed, offsets, BLOCK: tl.constexpr):
    offsets = offsets.to(tl.uint32)
    if BLOCK % 4 != 0:
        return tl.rand(seed, offsets)
    first, second, third, fourth = tl.rand4x(seed, tl.min(offsets, axis=0) // 4 + tl.arange(0, BLOCK // 4))
    return _in_order(first, second, third, fourth)


@triton.jit
def randn4x(seed, offsets, BLOCK: tl.constexpr):
    offsets = offsets.to(tl.uint32)
    if BLOCK % 4 != 0:
        return tl.randn(seed, offsets)
    first, second, third, fourth = tl.randn4x(seed, tl.min(offsets, axis=0) // 4 + tl.arange(0, BLOCK // 4))
    return _in_order(first, second, third, fourth)


@triton.jit
def bucketize_binary_search(
    values, boundaries, size, allocated, stride, starts, dtype, right, sorter, sorter_stride, sorter_starts
):
    low = tl.zeros(values.shape, dtype=dtype)
    high = tl.full(values.shape, size, dtype=dtype)
    left = size + 1
    while left > 1:
        middle = (high + low) // 2
        there = (middle * stride + starts < allocated).logical_and(middle < size)
        at = middle
        if sorter is not None and sorter_stride is not None:
            at = tl.load(sorter + sorter_starts + sorter_stride * middle, mask=there, other=0)
        bound = tl.load(boundaries + starts + stride * at, mask=there, other=0)
        above = values >= bound if right else values > bound
        if is_floating(values):
            above = above | (values != values)
        low = tl.where(above & there, middle + 1, low)
        high = tl.where(above, high, middle)
        left = (left + 1) // 2
    return low


@triton.jit
def _pair(x, shape: tl.constexpr):
    """Return the first and the second of the two elements of which each is one."""
    bits = tl.reshape(x, shape)
    second = tl.arange(0, 2)[None, :, None].to(bits.dtype)
    ones = tl.sum(bits * (1 - second), 1).to(bits.dtype)[:, None, :]
    others = tl.sum(bits * second, 1).to(bits.dtype)[:, None, :]
    return (
        tl.reshape(tl.broadcast_to(ones, shape), x.shape),
        tl.reshape(tl.broadcast_to(others, shape), x.shape),
    )


@triton.jit
def _exchanged(
    x,
    index,
    count,
    flip,
    stage: tl.constexpr,
    dims: tl.constexpr,
    stable: tl.constexpr,
    descending: tl.constexpr,
):
    """Exchange the elements of pairs that are in the wrong order."""
    shape: tl.constexpr = [(x.numel >> dims) * 2**stage, 2, 2 ** (dims - stage - 1)]
    whole = tl.core.get_int_dtype(x.dtype.primitive_bitwidth, signed=True)
    bits = x.to(whole, bitcast=True)
    one_bits, other_bits = _pair(bits, shape)
    at, other_at = _pair(index, shape)
    one, other = one_bits.to(x.dtype, bitcast=True), other_bits.to(x.dtype, bitcast=True)
    if descending:
        wrong = one < other
        late, soon = other != other, one != one
    else:
        wrong = one > other
        late, soon = one != one, other != other
    if is_floating(x):  # NaN is the largest
        wrong = wrong | (late & ~soon if stable else late)
    if stable:
        alike = one == other
        if is_floating(x):
            alike = alike | (late & soon)
        wrong = wrong | (alike & (at > other_at))
    if count is not None:
        there, other_there = at < count, other_at < count
        wrong = (other_there > there) | ((other_there == there) & wrong)
    wrong = (wrong ^ flip).to(tl.int1)
    moved = bits ^ tl.where(wrong, one_bits ^ other_bits, tl.zeros_like(bits))
    return moved.to(x.dtype, bitcast=True), index ^ tl.where(wrong, at ^ other_at, tl.zeros_like(index))


@triton.jit
def _alternating(x, merge: tl.constexpr, dims: tl.constexpr):
    shape: tl.constexpr = [(x.numel >> dims) * 2 ** (dims - 1 - merge), 2, 2**merge]
    return tl.reshape(tl.broadcast_to(tl.arange(0, 2)[None, :, None], shape), x.shape)


@triton.jit
def sort_with_index(
    x, index, count, dim: tl.constexpr = None, stable: tl.constexpr = False, descending: tl.constexpr = False
):
    """Sort along the last dimension: a bitonic sort."""
    x, index = tl.broadcast(x, index)
    dims: tl.constexpr = tl.standard._log2(x.shape[len(x.shape) - 1])
    for merge in tl.static_range(1, dims + 1):
        flip = _alternating(x, merge, dims) if merge < dims else False
        for stage in tl.static_range(merge):
            x, index = _exchanged(x, index, count, flip, stage + (dims - merge), dims, stable, descending)
    return x, index


@triton.jit
def exclusive_scan_decoupled_lookback(
    scratch, own, block, combine, DTYPE_VALUE_AS_UINT: tl.constexpr, DTYPE_PACK: tl.constexpr
):
    """Combine what the blocks before have: a flag in the low half of a word, 2 with all before, else 1."""
    whole: tl.constexpr = DTYPE_VALUE_AS_UINT
    packed: tl.constexpr = DTYPE_PACK
    bits = own.to(whole, bitcast=True).to(packed) << whole.primitive_bitwidth
    if block > 0:
        tl.atomic_xchg(scratch + block, bits | tl.full([], 1, packed), sem="relaxed")
    before = tl.zeros([], own.dtype)
    some = False
    at = block - 1
    while at >= 0:
        word = tl.full([], 0, packed)
        flag = tl.full([], 0, whole)
        while flag == 0:
            word = tl.atomic_add(scratch + at, 0, sem="relaxed")
            flag = word.to(whole)
        value = (word >> whole.primitive_bitwidth).to(whole).to(own.dtype, bitcast=True)
        if some:
            before = combine(value, before)
        else:
            before = value
            some = True
        at = -1 if flag == 2 else at - 1
    total = own
    if some:
        total = combine(before, own)
    bits = total.to(whole, bitcast=True).to(packed) << whole.primitive_bitwidth
    tl.atomic_xchg(scratch + block, bits | tl.full([], 2, packed), sem="relaxed")
    return before


@triton.jit
def exclusive_scan_decoupled_lookback_64(scratch, own, block, combine):
    """As above, of 64 bits: a flag, the block's own value, and that with all before, side by side."""
    if block > 0:
        tl.store(scratch + 3 * block + 1, own.to(tl.uint64, bitcast=True))
        tl.debug_barrier()
        tl.atomic_xchg(scratch + 3 * block, tl.full([], 1, tl.uint64), sem="release")
    before = tl.zeros([], own.dtype)
    some = False
    at = block - 1
    while at >= 0:
        flag = tl.full([], 0, tl.uint64)
        while flag == 0:
            flag = tl.atomic_add(scratch + 3 * at, 0, sem="acquire")
        value = tl.load(scratch + 3 * at + flag.to(tl.int32)).to(own.dtype, bitcast=True)
        if some:
            before = combine(value, before)
        else:
            before = value
            some = True
        at = -1 if flag == 2 else at - 1
    total = own
    if some:
        total = combine(before, own)
    tl.store(scratch + 3 * block + 2, total.to(tl.uint64, bitcast=True))
    tl.debug_barrier()
    tl.atomic_xchg(scratch + 3 * block, tl.full([], 2, tl.uint64), sem="release")
    return before
